"""Dead letters over three nodes that are killed: each rejected record has one, whoever dies.

With a node go leaders of the source, of the topic of dead letters, and share coordinators.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.cli.failure import Failure
from penstock.testing.cluster import Cluster
from penstock.testing.share_client import ShareClient, Word

SOURCE, LETTERS, GROUP = "jobs", "dlq.jobs", "workers"
PARTITIONS, LETTER_PARTITIONS, RECORDS = 3, 2, 900
SECONDS_MAX = 90
CONFIG = {
    "min.insync.replicas": "2",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
}
Place = tuple[int, int]
"""Partition and offset in the source."""


@pytest.mark.slow
@pytest.mark.timeout(3 * SECONDS_MAX)
def test_every_rejected_record_is_among_the_dead_letters_whichever_node_is_killed(
    tmp_path: Path,
) -> None:
    with Cluster(nodes=3, config=CONFIG, data=tmp_path / "cluster") as cluster:
        bootstrap = cluster.bootstrap_servers
        prepare(bootstrap)
        fill(bootstrap)
        rejected: dict[Place, bytes] = {}
        for number in (1, 2, 3):
            reject(bootstrap, rejected, until=number * RECORDS // 4)
            cluster.node(number).kill()
            reject(bootstrap, rejected, until=len(rejected) + 20)
            cluster.node(number).start()
        reject(bootstrap, rejected, until=RECORDS)
        letters = letters_about(bootstrap, RECORDS)
    assert {place: values[0] for place, values in letters.items()} == rejected
    assert all(len(set(values)) == 1 for values in letters.values())
    twice = sum(len(values) - 1 for values in letters.values())
    print(f"{len(letters)} records, {twice} letters too many")
    assert twice < RECORDS, "only what was on its way when a node died comes twice"


def prepare(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    enabled = {"errors.deadletterqueue.group.enable": "true"}
    topics = [
        NewTopic(SOURCE, PARTITIONS, 3),
        NewTopic(LETTERS, LETTER_PARTITIONS, 3, config=enabled),
    ]
    for done in admin.create_topics(topics).values():
        done.result(30)
    configs = {
        "share.auto.offset.reset": "earliest",
        "errors.deadletterqueue.topic.name": LETTERS,
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    group = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
    admin.incremental_alter_configs([group])[group].result(30)


def fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def reject(bootstrap: str, rejected: dict[Place, bytes], until: int) -> None:
    """Take and reject until so many are; whoever meets a dying node begins another life.

    A record whose rejection nobody confirmed may come again, or may not: either way it is
    rejected, and counts.
    """
    deadline = time.monotonic() + SECONDS_MAX
    while len(rejected) < until:
        assert time.monotonic() < deadline, f"{len(rejected)} of {until} rejected"
        try:
            with ShareClient(bootstrap, GROUP, [SOURCE], records_max=30, strict=True) as client:
                while len(rejected) < until:
                    assert time.monotonic() < deadline, f"{len(rejected)} of {until} rejected"
                    records = client.poll(1)
                    rejected |= {(it.partition, it.offset): it.value or b"" for it in records}
                    client.acknowledge(records, Word.REJECT)
        except Failure:
            time.sleep(0.1)


def letters_about(bootstrap: str, count: int) -> dict[Place, list[bytes]]:
    """The values of letters about each record, when there is one about every record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "undertaker"})
    consumer.assign([TopicPartition(LETTERS, index, 0) for index in range(LETTER_PARTITIONS)])
    found: dict[Place, list[bytes]] = {}
    reasons: Counter[bytes] = Counter()
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} letters; {reasons}"
        for message in consumer.consume(500, 0.5):
            headers: dict[str, bytes] = dict(cast(Any, message.headers()))
            assert headers["__dlq.errors.topic"] == SOURCE.encode()
            assert headers["__dlq.errors.group"] == GROUP.encode()
            reasons[headers["penstock-dlq-reason"]] += 1
            place = int(headers["__dlq.errors.partition"]), int(headers["__dlq.errors.offset"])
            assert message.partition() == place[0] % LETTER_PARTITIONS
            found.setdefault(place, []).append(message.value() or b"")
    consumer.close()
    return found
