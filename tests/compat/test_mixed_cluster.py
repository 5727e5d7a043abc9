"""Nodes of Apache Kafka and of Penstock in one cluster, quorum included.

The same three voters, the same replicas, either make in the lead. The last test is a migration, as
docs/migrate-from-kafka.md describes it: a cluster of three Apache nodes becomes one of three
Penstock nodes, node by node, over the same directories, while clients write, read and process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from tests.compat.eos import fleet
from tests.compat.mixed_clients import (
    SECONDS_MAX,
    Copying,
    Table,
    Writers,
    create,
    is_whole,
    partitions,
    until,
)
from tests.oracle.nodes import ApacheNode, Node, PenstockNode
from tests.oracle.trio import Trio

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

CONFIG = {
    # What is dead is taken for dead in seconds, and starts with few partitions to open.
    "broker.session.timeout.ms": "4000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "500",
    # So is a worker that had to end within a transaction: its next life waits for its partitions.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
MAKES: dict[str, type[Node]] = {"apache": ApacheNode, "penstock": PenstockNode}
ENDED_IN_GOOD_ORDER = (0, 143)  # the JVM ends with the signal's number, however well it went


@pytest.fixture(params=["apache penstock penstock", "penstock apache apache"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trio]:
    with Trio(tmp_path, [MAKES[word] for word in request.param.split()], CONFIG) as trio:
        yield trio


def test_whoever_dies_the_others_go_on_and_nothing_is_lost(mixed: Trio) -> None:
    writers = Writers(mixed, create(mixed, "orders", 6))
    assert Counter(leaders(mixed)) == {1: 2, 2: 2, 3: 2}, "each make leads its share"
    for number in (1, 2):  # one of each make
        writers.go_on()
        mixed.nodes[number].kill()
        until(others_lead(mixed, number), "others lead")
        writers.go_on()
        mixed.nodes[number].start()
        until(lambda: is_whole(mixed, "orders"), "all replicas are in sync again")
    writers.judge()
    assert mixed.complaints() == []


def test_three_apache_nodes_become_three_penstock_nodes_and_back_under_load(
    tmp_path: Path,
) -> None:
    new_protocol = fleet.by_the_new_protocol(fleet.confluent)
    with Trio(tmp_path, [ApacheNode] * 3, CONFIG) as trio:
        writers = Writers(trio, create(trio, "orders", 6, {"retention.ms": "123456789"}))
        table = Table(trio)
        table.write_until_compacted()
        with (
            Copying(trio, "classic", fleet.confluent, tmp_path) as classic,
            Copying(trio, "new", new_protocol, tmp_path) as new,
        ):

            def replace(number: int, make: type[Node]) -> None:
                writers.go_on()
                assert trio.nodes[number].stop() in ENDED_IN_GOOD_ORDER
                trio.replace(number, lambda old: make(old.directory, data=old.data))
                trio.nodes[number].start()
                until(lambda: is_whole(trio, "orders"), "all replicas are in sync again")
                table.write()
                classic.go_on()
                new.go_on()

            classic.go_on()
            new.go_on()
            for number in (3, 1, 2):
                replace(number, PenstockNode)
            table.write_until_compacted()
            table.judge()
            assert retention(trio) == "123456789"
            replace(3, ApacheNode)  # the way back
            classic.judge()
            new.judge()
        writers.judge()
        table.judge()
        assert retention(trio) == "123456789"
        assert trio.complaints() == []


def leaders(trio: Trio) -> list[int]:
    return [each.leader for each in partitions(trio, "orders").values()]


def others_lead(trio: Trio, number: int) -> Callable[[], bool]:
    return lambda: number not in leaders(trio)


def retention(trio: Trio) -> str | None:
    admin = AdminClient({"bootstrap.servers": trio.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, "orders")
    found = admin.describe_configs([resource])[resource].result(SECONDS_MAX)
    value: str | None = found["retention.ms"].value
    return value
