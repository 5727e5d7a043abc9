"""Nodes of Apache Kafka and of Penstock in one cluster, quorum included.

The same three voters, the same replicas, either make in the lead. The last test is a migration: a
cluster of three Apache nodes becomes one of three Penstock nodes, node by node, over the same
directories, while clients write and read.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.testing.history import History, Place, Recorder, check
from penstock.testing.history.confluent import read_to_end
from tests.oracle.nodes import ApacheNode, Node, PenstockNode
from tests.oracle.trio import Trio
from tests.system.senders import Sender

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 6
SECONDS_MAX = 120
QUICK = {"broker.session.timeout.ms": "4000"}


@pytest.fixture(params=["apache penstock penstock", "penstock apache apache"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trio]:
    makes: dict[str, Callable[[Path], Node]] = {"apache": ApacheNode, "penstock": PenstockNode}
    with Trio(tmp_path, [makes[word] for word in request.param.split()], QUICK) as trio:
        yield trio


def test_whoever_dies_the_others_go_on_and_nothing_is_lost(mixed: Trio) -> None:
    places = _create(mixed, "orders")
    senders = _senders(mixed, places)
    leaders = _leaders(mixed)
    assert Counter(leaders.values()) == {1: 2, 2: 2, 3: 2}, "each make leads its share"
    for number in mixed.nodes:
        _go_on(senders)
        mixed.nodes[number].kill()
        _until(lambda dead=number: dead not in _leaders(mixed).values(), "others lead")  # type: ignore[misc]
        _go_on(senders)
        mixed.nodes[number].start()
        _until(lambda: _whole(mixed), "all replicas are in sync again")
    _judge(mixed, places, senders)


def test_three_apache_nodes_become_three_penstock_nodes_under_load(tmp_path: Path) -> None:
    with Trio(tmp_path, [ApacheNode] * 3, QUICK) as trio:
        places = _create(trio, "orders", {"retention.ms": "123456789"})
        senders = _senders(trio, places)
        group = Group(trio.bootstrap)
        for number in (3, 1, 2):
            _go_on(senders)
            trio.nodes[number].stop()
            trio.replace(number, lambda old: PenstockNode(old.directory, data=old.data))
            trio.nodes[number].start()
            _until(lambda: _whole(trio), "all replicas are in sync again")
        _go_on(senders)
        assert [type(node) for node in trio.nodes.values()] == [PenstockNode] * 3
        _judge(trio, places, senders)
        group.stop()
        found = read_to_end({"bootstrap.servers": trio.bootstrap}, places, Recorder("again"))
        ends = {place: records[-1].offset + 1 for place, records in found.items() if records}
        group.finish(ends)
        admin = AdminClient({"bootstrap.servers": trio.bootstrap})
        resource = ConfigResource(ResourceType.TOPIC, "orders")
        config = admin.describe_configs([resource])[resource].result(SECONDS_MAX)
        assert config["retention.ms"].value == "123456789"


# -- clients --------------------------------------------------------------------------------------


class Group:
    """One member of a group, which commits what it has read and never reads it again."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.seen: Counter[tuple[int, int]] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, name="group")
        self._thread.start()

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def _read(self) -> None:
        consumer = self._consumer()
        consumer.subscribe(["orders"])
        while not self._stopping.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.seen[message.partition(), message.offset()] += 1
                consumer.commit(message, asynchronous=True)
        consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(SECONDS_MAX)

    def finish(self, ends: dict[Place, int]) -> None:
        """What it committed on the old nodes and the new is no more than it has read."""
        consumer = self._consumer()
        wanted = [TopicPartition("orders", place.partition) for place in ends]
        committed = consumer.committed(wanted, SECONDS_MAX)
        consumer.close()
        assert any(each.offset > 0 for each in committed), "commits survived"
        for each in committed:
            read = {offset for index, offset in self.seen if index == each.partition}
            assert set(range(max(each.offset, 0))) <= read, "committed, and never read"


def _create(trio: Trio, topic: str, config: dict[str, str] | None = None) -> list[Place]:
    admin = AdminClient({"bootstrap.servers": trio.bootstrap})
    new = NewTopic(topic, PARTITIONS, 3, config=config or {})
    admin.create_topics([new])[topic].result(SECONDS_MAX)
    _until(lambda: len(_leaders(trio)) == PARTITIONS and _whole(trio), f"{topic} is led")
    return [Place(topic, index) for index in range(PARTITIONS)]


def _senders(trio: Trio, places: list[Place]) -> list[Sender]:
    senders = [Sender(f"sender-{number}", trio.bootstrap, places) for number in range(2)]
    for sender in senders:
        sender.start()
    return senders


def _go_on(senders: list[Sender]) -> None:
    before = [sender.acknowledged for sender in senders]
    _until(
        lambda: all(s.acknowledged > b + 100 for s, b in zip(senders, before, strict=True)),
        "every producer gets acknowledgements",
    )


def _judge(trio: Trio, places: list[Place], senders: list[Sender]) -> None:
    for sender in senders:
        sender.finish(SECONDS_MAX)
    assert not any(sender.failures for sender in senders), [s.failures for s in senders]
    reader = Recorder("reader")
    read_to_end({"bootstrap.servers": trio.bootstrap, "check.crcs": True}, places, reader)
    check(History.of(reader, *(sender.recorder for sender in senders)))


def _leaders(trio: Trio) -> dict[int, int]:
    return {index: partition.leader for index, partition in _partitions(trio).items()}


def _whole(trio: Trio) -> bool:
    return all(len(each.isrs) == 3 and each.leader > 0 for each in _partitions(trio).values())


def _partitions(trio: Trio) -> dict[int, Any]:
    admin = AdminClient({"bootstrap.servers": trio.bootstrap, "log_level": 0})
    found = admin.list_topics("orders", timeout=SECONDS_MAX).topics["orders"].partitions
    return dict(found)


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"not within {SECONDS_MAX} s: {what}"
        time.sleep(0.1)
