"""Three real nodes, three replicas: leaders and followers die, lose their disks, and come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.records.batch import HEAD_SIZE, read_head
from penstock.testing.cluster import Cluster

SETTINGS = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "200",
    "replica.fetch.wait.max.ms": "200",
    "min.insync.replicas": "2",
    "log.segment.bytes": "1048576",
}
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, config=SETTINGS) as made:
        yield made


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})


def create(admin: AdminClient, name: str, **config: str) -> None:
    made = admin.create_topics([NewTopic(name, 1, 3, config=config)])
    made[name].result(20)


def until(condition: Callable[[], object], what: str, seconds_max: float = 20) -> Any:
    """Wait for something to become true; what it was in the end."""
    give_up = time.monotonic() + seconds_max
    while not (found := condition()):
        assert time.monotonic() < give_up, f"never happened: {what}"
        time.sleep(0.05)
    return found


def partition(admin: AdminClient, topic: str) -> Any:
    return admin.list_topics(topic, timeout=10).topics[topic].partitions.get(0)


def leader_of(admin: AdminClient, topic: str) -> int:
    found: int = until(lambda: max(0, getattr(partition(admin, topic), "leader", 0)), "a leader")
    return found


def in_sync(admin: AdminClient, topic: str, count: int) -> None:
    until(
        lambda: len(getattr(partition(admin, topic), "isrs", ())) == count,
        f"{count} replicas in sync",
    )


class Writer:
    """Writes numbered values, and knows which of them were acknowledged."""

    def __init__(self, cluster: Cluster, topic: str, **settings: str) -> None:
        self.acknowledged: list[bytes] = []
        self.refused: list[KafkaError] = []
        self._topic = topic
        self._next = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "acks": "all",
                "delivery.timeout.ms": "30000",
                **QUIET,
                **settings,
            }
        )

    def write(self, count: int, size: int = 100, label: bytes = b"") -> None:
        """Hand over `count` more values."""
        for _ in range(count):
            value = (b"%s%d;" % (label, self._next)).ljust(size, b".")
            self._next += 1
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._told)
            self._producer.poll(0)

    def settle(self) -> None:
        """Wait until each value is acknowledged or refused."""
        assert self._producer.flush(40) == 0

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            value = message.value()
            assert isinstance(value, bytes)
            self.acknowledged.append(value)
        else:
            self.refused.append(error)


def read_all(cluster: Cluster, topic: str) -> list[bytes]:
    """Everything that a consumer sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            break
        value = message.value()
        if error is None and isinstance(value, bytes):
            found.append(value)
    consumer.close()
    return found


def batches(cluster: Cluster, node_id: int, topic: str) -> list[bytes]:
    """The batches in one replica's segments."""
    found: list[bytes] = []
    for segment in sorted(Path(cluster.directory(node_id), f"{topic}-0").glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + HEAD_SIZE <= len(data):
            end = at + read_head(data, at).size
            found.append(data[at:end])
            at = end
    return found


def replicas_become_equal(cluster: Cluster, topic: str) -> list[bytes]:
    """Wait until all three replicas hold the same bytes, and answer their batches."""

    def equal() -> list[bytes]:
        one, two, three = (batches(cluster, node_id, topic) for node_id in (1, 2, 3))
        return one if one == two == three else []

    found: list[bytes] = until(equal, "equal replicas")
    return found


def test_a_leader_that_is_killed_under_load_takes_nothing_acknowledged_with_it(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "killed")
    writer = Writer(cluster, "killed", **{"enable.idempotence": "true"})
    writer.write(500)
    writer.settle()
    writer.write(500)
    leader = leader_of(admin, "killed")
    cluster.node(leader).kill()
    writer.write(500)
    writer.settle()
    assert not writer.refused
    assert leader_of(admin, "killed") != leader
    found = read_all(cluster, "killed")
    assert found == writer.acknowledged
    cluster.node(leader).start()
    in_sync(admin, "killed", 3)
    replicas_become_equal(cluster, "killed")


def test_a_follower_that_is_killed_is_missed_by_nobody_and_catches_up(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "absent")
    writer = Writer(cluster, "absent")
    writer.write(100)
    writer.settle()
    leader = leader_of(admin, "absent")
    follower = next(each for each in (1, 2, 3) if each != leader)
    cluster.node(follower).kill()
    writer.write(3000, size=1000)
    writer.settle()
    in_sync(admin, "absent", 2)
    cluster.node(follower).start()
    in_sync(admin, "absent", 3)
    replicas_become_equal(cluster, "absent")
    assert not writer.refused
    assert read_all(cluster, "absent") == writer.acknowledged


def test_a_broker_whose_disk_was_replaced_by_an_empty_one_fills_it_again(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "emptied")
    writer = Writer(cluster, "emptied")
    writer.write(3000, size=1000)
    writer.settle()
    leader = leader_of(admin, "emptied")
    follower = next(each for each in (1, 2, 3) if each != leader)
    cluster.node(follower).stop()
    cluster.erase(follower)
    writer.write(100)
    writer.settle()
    cluster.node(follower).start()
    in_sync(admin, "emptied", 3)
    assert len(replicas_become_equal(cluster, "emptied")) > 1
    assert not writer.refused
    assert read_all(cluster, "emptied") == writer.acknowledged


def test_what_a_leader_alone_wrote_is_cut_off_when_another_led_meanwhile(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "parted")
    writer = Writer(cluster, "parted")
    writer.write(200, label=b"all ")
    writer.settle()
    leader = leader_of(admin, "parted")
    others = [cluster.node(each) for each in (1, 2, 3) if each != leader]
    for each in others:
        each.pause()
    time.sleep(0.5)  # the fetches that wait at the leader are answered, and no others come
    # Nobody copies what the leader takes now, and with most of the quorum held nobody can take
    # the others out of the in-sync set.
    alone = cluster.node(leader).bootstrap_servers
    hasty = Writer(cluster, "parted", acks="1", **{"bootstrap.servers": alone})
    hasty.write(50, label=b"alone ")
    hasty.settle()
    assert len(hasty.acknowledged) == 50
    cluster.node(leader).kill()
    for each in others:
        each.resume()
    until(lambda: leader_of(admin, "parted") != leader, "another leader")
    writer.write(200, label=b"all ")
    writer.settle()
    cluster.node(leader).start()
    in_sync(admin, "parted", 3)
    found = replicas_become_equal(cluster, "parted")
    assert not any(b"alone" in each for each in found)
    assert read_all(cluster, "parted") == writer.acknowledged
