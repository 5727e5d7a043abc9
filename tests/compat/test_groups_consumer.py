"""Groups of the new protocol with real clients: members come, go and are killed, records flow.

Whatever happens, every record is consumed, no committed offset is lost, and no partition has two
owners at once. So it is with members of both protocols in one group, and with groups that move
between Apache Kafka and Penstock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.compat.java.programs import wait_until
from tests.compat.rdkafka_crew import (
    SESSION_MS,
    SETTLE_SECONDS_MAX,
    Crew,
    Stream,
    come_and_go,
    create,
)
from tests.oracle.nodes import ApacheNode, Node, PenstockNode
from tests.oracle.tools import Tools

CONFIG = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
CLASSIC = {
    "group_protocol": "classic",
    "partition_assignment_strategy": "range",
    "session_timeout_ms": str(SESSION_MS),
    "heartbeat_interval_ms": "500",
}


@pytest.fixture(scope="module")
def node(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A broker that misses members as soon as those of the classic protocol."""
    with target(tmp_path_factory.mktemp("node"), config=CONFIG) as running:
        yield running


class NewCrew(Crew):
    """Members that speak the new protocol, unless they are told otherwise."""

    def __init__(self, node: Node, topic: str, folder: Path) -> None:
        super().__init__(node, topic, folder, "range")
        for name in (
            "partition.assignment.strategy",
            "session.timeout.ms",
            "heartbeat.interval.ms",
        ):
            del self._settings[name]  # the coordinator decides
        self._settings["group.protocol"] = "consumer"


def _consumer(node: Node, group: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


def _fill(node: Node, topic: str, partitions: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(30) == 0


def _read(consumer: Consumer, count: int) -> list[tuple[str, int]]:
    """The next records, as (topic, number)."""
    found: list[tuple[str, int]] = []

    def enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None:
            if message.error() is not None:
                raise KafkaException(message.error())
            topic, value = message.topic(), message.value()
            assert topic is not None and value is not None
            found.append((topic, int(value)))
        return len(found) >= count

    wait_until(enough, f"{count} records", SETTLE_SECONDS_MAX, lambda: f"{len(found)} of them")
    return sorted(found)


def test_a_group_shares_all_partitions_whoever_joins_leaves_or_is_killed(
    node: Node, topic: str, tmp_path: Path
) -> None:
    with Stream(node, topic) as stream, NewCrew(node, topic, tmp_path) as crew:
        come_and_go(crew, stream)


def test_members_stay_when_the_node_is_killed_and_comes_back(
    make_node: Callable[..., Node], topic: str, tmp_path: Path
) -> None:
    node = make_node(config=CONFIG)
    node.start()
    with Stream(node, topic) as stream, NewCrew(node, topic, tmp_path) as crew:
        crew.start("a")
        crew.start("b")
        crew.settle("a", "b")
        crew.wait_for_progress(stream)
        before = crew.owners()
        node.kill()
        node.start()
        crew.wait_for_progress(stream)
        assert crew.owners() == before
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


def test_a_static_member_comes_back_and_disturbs_nobody(
    node: Node, topic: str, tmp_path: Path
) -> None:
    with Stream(node, topic) as stream, NewCrew(node, topic, tmp_path) as crew:
        for name in ("a", "b", "c"):
            crew.start(name, group_instance_id=name)
        crew.settle("a", "b", "c")
        before, disturbed = crew.owners(), crew.disturbances("a", "b")
        crew.stop("c")
        crew.start("d", group_instance_id="c")
        crew.settle("a", "b", "d")
        assert crew.owners() == {
            partition: "d" if owner == "c" else owner for partition, owner in before.items()
        }
        assert crew.disturbances("a", "b") == disturbed
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


def test_a_group_moves_to_the_new_protocol_and_back_while_it_works(
    node: Node, topic: str, tmp_path: Path
) -> None:
    with Stream(node, topic) as stream, NewCrew(node, topic, tmp_path) as crew:
        crew.start("old-1", **CLASSIC)
        crew.start("old-2", **CLASSIC)
        crew.settle("old-1", "old-2")
        crew.start("new-1")
        crew.settle("old-1", "old-2", "new-1")
        crew.stop("old-1")
        crew.start("new-2")
        crew.settle("old-2", "new-1", "new-2")
        crew.stop("old-2")
        crew.settle("new-1", "new-2")
        crew.wait_for_progress(stream)
        crew.start("old-3", **CLASSIC)
        crew.settle("new-1", "new-2", "old-3")
        crew.stop("new-1")
        crew.kill("new-2")
        crew.settle("old-3")
        crew.wait_for_progress(stream)
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


def test_topics_are_found_by_regular_expression(node: Node, topic: str) -> None:
    create(node, f"{topic}-logs-1", 2)
    create(node, f"{topic}-other", 1)
    _fill(node, f"{topic}-logs-1", 2, 20)
    _fill(node, f"{topic}-other", 1, 5)
    consumer = _consumer(node, topic)
    consumer.subscribe([f"^{topic}-logs-.*"])
    assert _read(consumer, 20) == [(f"{topic}-logs-1", number) for number in range(20)]
    create(node, f"{topic}-logs-2", 1)
    _fill(node, f"{topic}-logs-2", 1, 10)
    assert _read(consumer, 10) == [(f"{topic}-logs-2", number) for number in range(10)]
    consumer.close()


def test_an_expression_that_makes_no_sense_is_refused(node: Node, topic: str) -> None:
    consumer = _consumer(node, topic)
    consumer.subscribe(["^a{2}{3}"])  # librdkafka knows what that means, RE2 does not
    with pytest.raises(KafkaException, match=r"(?i)regular expression"):
        _read(consumer, 1)
    consumer.close()


def test_new_partitions_are_consumed(node: Node, topic: str) -> None:
    from confluent_kafka.admin import NewPartitions

    create(node, topic, 1)
    _fill(node, topic, 1, 3)
    consumer = _consumer(node, topic, enable_auto_commit="false")
    consumer.subscribe([topic])
    assert len(_read(consumer, 3)) == 3
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for grown in admin.create_partitions([NewPartitions(topic, 3)]).values():
        grown.result(30)
    _fill(node, topic, 3, 9)
    assert len(_read(consumer, 9)) == 9
    consumer.close()


@pytest.mark.java
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_apaches_verifiable_consumer_reads_everything(
    node: Node, topic: str, tools: Tools, assignor: str
) -> None:
    create(node, topic, 4)
    _fill(node, topic, 4, 400)
    out = tools.check(
        "VerifiableConsumer",
        "--bootstrap-server",
        node.bootstrap,
        "--topic",
        topic,
        "--group-id",
        topic,
        "--group-protocol",
        "consumer",
        "--group-remote-assignor",
        assignor,
        "--reset-policy",
        "earliest",
        "--max-messages",
        "400",
        seconds_max=SETTLE_SECONDS_MAX,
    )
    assert '"name":"partitions_assigned"' in out
    assert '"name":"shutdown_complete"' in out


@pytest.mark.java
@pytest.mark.penstock_only
@pytest.mark.parametrize("first", [ApacheNode, PenstockNode])
def test_a_group_moves_with_its_directory(
    tmp_path: Path, topic: str, tools: Tools, first: type[Node]
) -> None:
    """The next owner knows the member that died with the node, and what it had committed."""
    second: type[Node] = PenstockNode if first is ApacheNode else ApacheNode
    data = tmp_path / "data"
    # Long enough for the dead member to be seen, short enough to wait for its end.
    config = CONFIG | {"group.consumer.session.timeout.ms": "20000"}
    with first(tmp_path / "first", data=data, config=config) as before:
        create(before, topic, 4)
        _fill(before, topic, 4, 40)
        with NewCrew(before, topic, tmp_path) as crew:
            crew.start("a")
            wait_until(
                lambda: len(crew.consumed()) == 40, "all is consumed", SETTLE_SECONDS_MAX, str
            )
            crew.kill("a")
        before.stop()
    with second(tmp_path / "second", data=data, config=config) as after:
        described = tools.check(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server",
            after.bootstrap,
            "--describe",
            "--members",
            "--verbose",
            "--group",
            f"group-{topic}",
        )
        assert f"{topic}:0,1,2,3" in described, described
        _fill(after, topic, 4, 60)
        consumer = _consumer(after, f"group-{topic}")
        consumer.subscribe([topic])
        assert len(_read(consumer, 60)) == 60
        consumer.close()
