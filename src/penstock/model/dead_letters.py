"""The headers of a dead letter: whose it was, where it came from and what went wrong.

Those of `KAFKA_PREFIX` are Kafka 4.4's own (KIP-1191), with the same text in them: names as they
are, numbers in decimal. Those of `PREFIX` say what Kafka's do not. Brokers write them for share
groups, `penstock.patterns` for ordinary ones, pipelines for records that cannot be read; the
`penstock dlq` commands read all three.
"""

from __future__ import annotations

KAFKA_PREFIX = "__dlq.errors."
TOPIC = f"{KAFKA_PREFIX}topic"
PARTITION = f"{KAFKA_PREFIX}partition"
OFFSET = f"{KAFKA_PREFIX}offset"
GROUP = f"{KAFKA_PREFIX}group"
DELIVERY_COUNT = f"{KAFKA_PREFIX}delivery.count"
MESSAGE = f"{KAFKA_PREFIX}message"
"""What went wrong, in a sentence for people."""

PREFIX = "penstock-dlq-"
REASON = f"{PREFIX}reason"
"""What went wrong, in a word to sort by: `REJECTED` and the others below, or whatever a program
calls it."""
TIME = f"{PREFIX}time"
"""When the record was given up, in milliseconds since 1970."""
COPIED = f"{PREFIX}copied"
"""`false` where the letter has headers alone, and key and value must be read at the source."""

REJECTED = "rejected"
"""Somebody has said that it cannot be handled."""
DELIVERIES = "deliveries"
"""It was delivered as often as its group allows."""
EXPIRED = "expired"
"""Its time to live was over before anybody took it."""
FAILED = "failed"
"""Its handler failed each time."""

REDRIVES = "penstock-redrive-count"
"""How often a record was sent back to its topic. It stays when the letter's other headers go."""


def is_error_header(name: str) -> bool:
    """Whether a header tells of the death, and was not the record's own."""
    return name.startswith((KAFKA_PREFIX, PREFIX))
