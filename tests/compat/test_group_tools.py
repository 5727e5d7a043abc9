"""Apache Kafka's tools for groups, as operators type them, and what they print."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle.nodes import Node
from tests.oracle.tools import ToolResult, Tools

pytestmark = pytest.mark.java

COMMAND = "consumer.group.ConsumerGroupCommand"
RECORDS = 50


class Groups:
    """ConsumerGroupCommand, pointed at the broker under test."""

    def __init__(self, tools: Tools, broker: Node) -> None:
        self._tools = tools
        self._where = ("--bootstrap-server", broker.bootstrap)

    def __call__(self, *arguments: str) -> str:
        return self._tools.check(f"org.apache.kafka.tools.{COMMAND}", *self._where, *arguments)

    def attempt(self, *arguments: str) -> ToolResult:
        return self._tools.run(f"org.apache.kafka.tools.{COMMAND}", *self._where, *arguments)

    def rows(self, *arguments: str) -> list[dict[str, str]]:
        """The lines of a table, by the names of its columns."""
        lines = [line.split() for line in self(*arguments).splitlines() if line.strip()]
        head = next(at for at, line in enumerate(lines) if line[0] == "GROUP")
        names = [name for name in lines[head] if not name.startswith("(")]
        return [dict(zip(names, line, strict=False)) for line in lines[head + 1 :]]

    def offsets(self, group: str) -> dict[tuple[str, int], tuple[str, str]]:
        """Offset and lag of each partition, as --describe shows them."""
        return {
            (row["TOPIC"], int(row["PARTITION"])): (row["CURRENT-OFFSET"], row["LAG"])
            for row in self.rows("--describe", "--group", group)
        }

    def reset(self, group: str, *arguments: str) -> dict[tuple[str, int], int]:
        """What --reset-offsets says it has set, or would set."""
        rows = self.rows("--reset-offsets", "--group", group, *arguments)
        return {(row["TOPIC"], int(row["PARTITION"])): int(row["NEW-OFFSET"]) for row in rows}


@pytest.fixture
def groups(tools: Tools, broker: Node) -> Groups:
    return Groups(tools, broker)


@pytest.fixture
def filled(broker: Node, topic: str) -> str:
    """A topic of two partitions with 50 records each, one of them a second."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        for partition in (0, 1):
            producer.produce(topic, b"value", partition=partition, timestamp=stamp(number))
    assert producer.flush(30) == 0
    return topic


def stamp(number: int) -> int:
    return 1_700_000_000_000 + 1000 * number


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


def commit(broker: Node, group: str, topic: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, at, offset) for at, offset in enumerate(offsets)]
    try:
        # Apache Kafka names a coordinator a moment before it is one.
        for _ in range(50):
            try:
                consumer.commit(offsets=wanted, asynchronous=False)
                return
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.NOT_COORDINATOR:
                    raise
            time.sleep(0.2)
        raise AssertionError("nobody coordinates the group")
    finally:
        consumer.close()


@contextmanager
def member(broker: Node, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    """A consumer that has its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "client.id": "reader",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        while len(consumer.assignment()) < 2:
            assert time.monotonic() < deadline, "no partitions were assigned"
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()


def test_groups_are_listed_with_their_states_and_types(
    broker: Node, groups: Groups, filled: str, group: str
) -> None:
    commit(broker, group, filled, 5)
    other = f"{group}-2"
    with member(broker, other, filled):
        assert {group, other} <= set(groups("--list").split())
        states = {row["GROUP"]: row["STATE"] for row in groups.rows("--list", "--state")}
        assert (states[group], states[other]) == ("Empty", "Stable")
        stable = {row["GROUP"] for row in groups.rows("--list", "--state", "Stable")}
        assert other in stable and group not in stable
        types = {row["GROUP"]: row["TYPE"] for row in groups.rows("--list", "--type")}
        assert (types[group], types[other]) == ("Classic", "Classic")
        assert not {group, other} & set(groups("--list", "--type", "consumer").split())


def test_a_group_without_members_is_described_with_offsets_and_lag(
    broker: Node, groups: Groups, filled: str, group: str
) -> None:
    commit(broker, group, filled, 5, 20)
    assert groups.offsets(group) == {(filled, 0): ("5", "45"), (filled, 1): ("20", "30")}
    state = groups("--describe", "--group", group, "--state").split()
    assert group in state and state[-2:] == ["Empty", "0"]
    assert "has no active members" in groups.attempt("--describe", "--group", group).err


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_is_described(
    broker: Node, groups: Groups, filled: str, group: str, protocol: str
) -> None:
    with member(broker, group, filled, protocol) as consumer:
        consumer.commit(offsets=[TopicPartition(filled, 0, 10)], asynchronous=False)
        rows = groups.rows("--describe", "--group", group, "--offsets")
        assert [(row["PARTITION"], row["CURRENT-OFFSET"], row["LAG"]) for row in rows] == [
            ("0", "10", "40"),
            ("1", "-", "-"),
        ]
        assert all(row["CLIENT-ID"] == "reader" for row in rows)
        members = groups("--describe", "--group", group, "--members", "--verbose")
        assert f"{filled}(0,1)" in members.replace(" ", "") or f"{filled}:0,1" in members
        state = groups("--describe", "--group", group, "--state").split()
        assert group in state and state[-2:] == ["Stable", "1"]
        refused = groups.attempt(
            "--reset-offsets", "--group", group, "--topic", filled, "--to-earliest", "--execute"
        )
        assert "only be reset if the group" in refused.out + refused.err
        deleted = groups.attempt("--delete", "--group", group)
        assert "The group is not empty" in deleted.out + deleted.err or (
            "GroupNotEmptyException" in deleted.out + deleted.err
        )
        offsets = groups.attempt("--delete-offsets", "--group", group, "--topic", filled)
        assert "subscribed" in (offsets.out + offsets.err).lower()


def test_offsets_are_reset_in_every_form(
    broker: Node, groups: Groups, filled: str, group: str, tmp_path: Path
) -> None:
    commit(broker, group, filled, 10, 10)
    both = ("--topic", filled)
    moment = "2023-11-14T22:13:40.000"  # twenty seconds after the first record
    for arguments, offset in (
        (("--to-earliest",), 0),
        (("--to-latest",), RECORDS),
        (("--to-current",), 10),
        (("--shift-by", "7"), 17),
        (("--shift-by", "-30"), 0),
        (("--to-offset", "33"), 33),
        (("--to-offset", "3300"), RECORDS),
        (("--to-datetime", moment), 20),
        (("--by-duration", "PT1S"), RECORDS),
    ):
        said = groups.reset(group, *both, *arguments, "--dry-run")
        assert said == {(filled, 0): offset, (filled, 1): offset}, arguments
        assert groups.offsets(group)[filled, 0][0] == "10", "a dry run changes nothing"

    groups.reset(group, "--topic", f"{filled}:1", "--to-offset", "25", "--execute")
    assert {at: it[0] for at, it in groups.offsets(group).items()} == {
        (filled, 0): "10",
        (filled, 1): "25",
    }
    plan = groups("--reset-offsets", "--group", group, "--all-topics", "--to-current", "--export")
    file = tmp_path / "plan.csv"
    file.write_text(plan.replace(",25", ",30"))
    groups.reset(group, "--from-file", str(file), "--execute")
    assert groups.offsets(group)[filled, 1] == ("30", "20")


def test_a_group_and_single_offsets_are_deleted(
    broker: Node, groups: Groups, filled: str, group: str
) -> None:
    commit(broker, group, filled, 10, 10)
    gone = groups("--delete-offsets", "--group", group, "--topic", f"{filled}:0")
    assert "Successful" in gone
    assert list(groups.offsets(group)) == [(filled, 1)]
    assert "successful" in groups("--delete", "--group", group)
    assert group not in groups("--list").split()
    missing = groups.attempt("--delete", "--group", group)
    assert "GroupIdNotFoundException" in missing.out + missing.err


@pytest.mark.penstock_only
def test_the_dump_tool_reads_what_groups_committed(
    broker: Node, tools: Tools, filled: str, group: str
) -> None:
    commit(broker, group, filled, 10, 11)
    segments = [
        str(segment)
        for segment in broker.data.glob("__consumer_offsets-*/*.log")
        if segment.stat().st_size
    ]
    out = tools.check("DumpLogSegments", "--offsets-decoder", "--files", ",".join(segments))
    found = [
        json.loads(line.partition("payload: ")[2])
        for line in out.splitlines()
        if f'"group":"{group}"' in line and "payload:" in line
    ]
    assert [each["version"] for each in found] == ["4", "4"]
    assert sorted(each["data"]["offset"] for each in found) == [10, 11]
    assert all(len(each["data"]["topicId"]) == 22 for each in found)
