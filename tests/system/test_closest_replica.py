"""Three nodes in three racks: a consumer reads from the one in its own, until that is gone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.testing.cluster import Cluster
from tests.system.test_replication import QUIET, SETTINGS, create, leader_of, partition, until

RECORDS = 500
SECONDS_MAX = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        **SETTINGS,
        "min.insync.replicas": "1",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    racks = {number: {"broker.rack": f"rack-{number}"} for number in (1, 2, 3)}
    with Cluster(nodes=3, config=config, configs=racks) as made:
        yield made


class Reader:
    """A consumer in a rack, and how many fetches each broker had from it."""

    def __init__(self, cluster: Cluster, topic: str, rack: int) -> None:
        self._statistics: dict[str, Any] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "readers",
                "client.rack": f"rack-{rack}",
                "statistics.interval.ms": 100,
                "stats_cb": self._take,
                **QUIET,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} were read"
            came = self._consumer.consume(100, 0.1)
            found += [each.value() or b"" for each in came if not each.error()]
        return found

    @property
    def fetches(self) -> dict[int, int]:
        """By broker."""
        self._consumer.poll(0.3)
        brokers = self._statistics["brokers"].values()
        return {each["nodeid"]: each["req"].get("Fetch", 0) for each in brokers}

    def close(self) -> None:
        self._consumer.close()

    def _take(self, text: str) -> None:
        self._statistics = json.loads(text)


def write(cluster: Cluster, topic: str, records: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET})
    for each in records:
        producer.produce(topic, each)
    assert producer.flush(SECONDS_MAX) == 0


def test_a_consumer_reads_in_its_own_rack_and_elsewhere_when_that_is_gone(
    cluster: Cluster,
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    create(admin, "near")
    until(lambda: len(partition(admin, "near").isrs) == 3, "all are in sync")
    leader = leader_of(admin, "near")
    near = next(each for each in (1, 2, 3) if each != leader)
    values = [b"%d" % number for number in range(RECORDS)]
    write(cluster, "near", values)
    reader = Reader(cluster, "near", near)
    assert reader.read(RECORDS) == values
    fetches = reader.fetches
    assert fetches[near] > 0 and fetches[leader] <= 2, fetches
    cluster.node(near).kill()
    write(cluster, "near", values)
    assert reader.read(RECORDS) == values
    assert reader.fetches[leader] > fetches[leader]
    reader.close()
