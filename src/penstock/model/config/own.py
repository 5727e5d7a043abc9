"""Keys that Penstock has and Kafka does not, beside the tables of Kafka's keys.

Those that no Kafka has begin with `penstock.`: no later one can mean something else by them. Those
of dead letters are Kafka 4.4's (KIP-1191), under its names and with its defaults.
"""

from __future__ import annotations

from penstock.model.config.facts import BrokerRow, Row

DELAY_ENABLE = "penstock.delivery.delay.enable"
DELAY_MAX_MS = "penstock.delivery.delay.max.ms"
DELAY_MAX_RECORDS = "penstock.delivery.delay.max.records"

TEN_YEARS_MS = 3650 * 24 * 60 * 60 * 1000

# Keys of server.properties.
_LETTERS = "errors.deadletterqueue"
BROKER: tuple[BrokerRow, ...] = (
    (f"{_LETTERS}.auto.create.topics.enable", "BOOLEAN", False, "", "MEDIUM", "cluster-wide"),
    (f"{_LETTERS}.topic.name.prefix", "STRING", "dlq.", "", "MEDIUM", "cluster-wide"),
)

# Keys of a topic.
# fmt: off
TOPIC: tuple[Row, ...] = (
    (f"{_LETTERS}.group.enable", "BOOLEAN", False, "", "MEDIUM", ()),
    (DELAY_ENABLE, "BOOLEAN", False, "", "MEDIUM", ()),
    (DELAY_MAX_MS, "LONG", 30 * 24 * 60 * 60 * 1000, f"1..{TEN_YEARS_MS}", "MEDIUM", ()),
    (DELAY_MAX_RECORDS, "LONG", 1_000_000, "0..100000000", "MEDIUM", ()),
    ("penstock.ttl.enable", "BOOLEAN", False, "", "MEDIUM", ()),
)
# fmt: on

# Keys of a consumer, share or streams group.
# fmt: off
GROUP: tuple[Row, ...] = (
    (f"{_LETTERS}.copy.record.enable", "BOOLEAN", False, "", "MEDIUM", ()),
    (f"{_LETTERS}.topic.name", "STRING", "", "", "MEDIUM", ()),
    ("penstock.share.retry.backoff.jitter", "DOUBLE", 0.0, "0..1", "MEDIUM", ()),
    ("penstock.share.retry.backoff.max.ms", "INT", 600000, "0..", "MEDIUM", ()),
    ("penstock.share.retry.backoff.ms", "INT", 0, "0..", "MEDIUM", ()),
    ("penstock.share.retry.backoff.multiplier", "DOUBLE", 1.0, "1..100", "MEDIUM", ()),
)
# fmt: on

NAMES = frozenset(row[0] for table in (BROKER, TOPIC, GROUP) for row in table)
"""What Apache's tables do not have."""
