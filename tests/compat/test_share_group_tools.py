"""Apache Kafka's tools for share groups, as operators type them, and what they print."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.share_client import ShareClient
from tests.oracle.nodes import Node
from tests.oracle.tools import ToolResult, Tools

pytestmark = pytest.mark.java

COMMAND = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
RECORDS = 20


class Groups:
    """ShareGroupCommand, pointed at the broker under test."""

    def __init__(self, tools: Tools, broker: Node) -> None:
        self._tools = tools
        self._where = ("--bootstrap-server", broker.bootstrap)

    def __call__(self, *arguments: str) -> str:
        return self._tools.check(COMMAND, *self._where, *arguments)

    def attempt(self, *arguments: str) -> ToolResult:
        return self._tools.run(COMMAND, *self._where, *arguments)

    def rows(self, *arguments: str) -> list[dict[str, str]]:
        """The lines of a table, by the names of its columns."""
        lines = [line.split() for line in self(*arguments).splitlines() if line.strip()]
        head = next(at for at, line in enumerate(lines) if line[0] in ("GROUP", "TOPIC"))
        return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :]]


@pytest.fixture
def groups(tools: Tools, broker: Node) -> Groups:
    return Groups(tools, broker)


@pytest.fixture
def filled(broker: Node, topic: str) -> str:
    """A topic of two partitions with 20 records each."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        for partition in (0, 1):
            producer.produce(topic, b"value-%d" % number, partition=partition)
    assert producer.flush(30) == 0
    return topic


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


@pytest.fixture
def reset(tools: Tools, broker: Node, group: str) -> None:
    """The group begins where its topics do."""
    tools.check(
        "kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter",
        "--entity-type", "groups", "--entity-name", group,
        "--add-config", "share.auto.offset.reset=earliest",
    )  # fmt: skip


def read(broker: Node, group: str, topic: str, count: int) -> None:
    """A member takes so many records, accepts them and goes."""
    with ShareClient(broker.bootstrap, group, [topic], records_max=count, strict=True) as client:
        left, deadline = count, time.monotonic() + 60
        while left:
            assert time.monotonic() < deadline, f"{left} of {count} records did not come"
            taken = client.poll(5)[:left]
            client.acknowledge(taken)
            left -= len(taken)


def offsets(groups: Groups, group: str) -> dict[int, tuple[str, str]]:
    """Start and lag of each partition, as --describe shows them."""
    rows = groups.rows("--describe", "--group", group)
    return {int(row["PARTITION"]): (row["START-OFFSET"], row["LAG"]) for row in rows}


def test_a_console_consumer_reads_what_there_is(
    broker: Node, tools: Tools, filled: str, group: str, reset: None
) -> None:
    told = tools.check(
        CONSOLE, "--bootstrap-server", broker.bootstrap, "--topic", filled, "--group", group,
        "--max-messages", str(2 * RECORDS), "--timeout-ms", "30000",
    )  # fmt: skip
    assert sorted(told.split()) == sorted(2 * [f"value-{it}" for it in range(RECORDS)])


def test_groups_are_listed_with_their_states(
    broker: Node, tools: Tools, groups: Groups, filled: str, group: str
) -> None:
    with ShareClient(broker.bootstrap, group, [filled]) as client:
        client.join()
        assert group in groups("--list").split()
        states = {row["GROUP"]: row["STATE"] for row in groups.rows("--list", "--state")}
        assert states[group] == "Stable"
        assert group not in groups("--list", "--state", "Empty").split()
        where = ("--bootstrap-server", broker.bootstrap)
        told = tools.check("org.apache.kafka.tools.GroupsCommand", *where, "--list", "--share")
        row = next(line.split() for line in told.splitlines() if line.startswith(group))
        assert row == [group, "Share", "share"]
        consumers = tools.check(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *where, "--list"
        )
        assert group not in consumers.split()
    assert group in groups("--list", "--state", "Empty").split()


def test_members_are_described_with_what_they_have(
    broker: Node, groups: Groups, filled: str, group: str
) -> None:
    clients = [ShareClient(broker.bootstrap, group, [filled], member=it) for it in ("one", "two")]
    try:
        for client in clients:
            client.join()
        deadline = time.monotonic() + 30
        while {len(client.assignment) for client in clients} != {1}:
            assert time.monotonic() < deadline, [client.assignment for client in clients]
            for client in clients:
                client.heartbeat()
                client.poll(0.1)
        assert "Stable" in groups("--describe", "--group", group, "--state").split()
        rows = groups.rows("--describe", "--group", group, "--members", "--verbose")
        assert {row["CONSUMER-ID"] for row in rows} == {"one", "two"}
        held = sorted(row["ASSIGNMENT"] for row in rows)
        assert held == [f"{filled}:0", f"{filled}:1"]
        assert len({row["MEMBER-EPOCH"] for row in rows}) == 1
    finally:
        for client in clients:
            client.close()
    told = groups.attempt("--describe", "--group", group, "--members")
    assert "has no active members" in told.out + told.err


def test_offsets_and_lag_are_told(
    broker: Node, groups: Groups, filled: str, group: str, reset: None
) -> None:
    read(broker, group, filled, 30)
    told = offsets(groups, group)
    assert sum(int(lag) for _, lag in told.values()) == 2 * RECORDS - 30
    read(broker, group, filled, 10)
    assert {lag for _, lag in offsets(groups, group).values()} == {"0"}


def test_a_group_begins_somewhere_else(
    broker: Node, groups: Groups, filled: str, group: str, reset: None
) -> None:
    read(broker, group, filled, 2 * RECORDS)
    where = ("--group", group, "--topic", filled)
    told = groups.rows("--reset-offsets", *where, "--to-earliest", "--dry-run")
    assert {row["NEW-OFFSET"] for row in told} == {"0"}
    assert {lag for _, lag in offsets(groups, group).values()} == {"0"}  # nothing was changed
    groups("--reset-offsets", *where, "--to-earliest", "--execute")
    assert offsets(groups, group) == {0: ("0", str(RECORDS)), 1: ("0", str(RECORDS))}
    groups("--reset-offsets", *where, "--to-latest", "--execute")
    assert offsets(groups, group) == {0: (str(RECORDS), "0"), 1: (str(RECORDS), "0")}
    groups("--reset-offsets", *where, "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
    read(broker, group, filled, 2 * RECORDS)


def test_a_group_with_members_is_left_alone(
    broker: Node, groups: Groups, filled: str, group: str
) -> None:
    with ShareClient(broker.bootstrap, group, [filled]) as client:
        client.join()
        where = ("--group", group, "--topic", filled)
        told = groups.attempt("--reset-offsets", *where, "--to-earliest", "--execute")
        assert "not empty" in told.out + told.err or "is not inactive" in told.out + told.err
        told = groups.attempt("--delete-offsets", *where)
        assert "not empty" in (told.out + told.err).lower()
        told = groups.attempt("--delete", "--group", group)
        assert "not EMPTY" in told.out + told.err or "not empty" in told.out + told.err
        assert group in groups("--list").split()


def test_offsets_and_groups_are_deleted(
    broker: Node, groups: Groups, filled: str, group: str, reset: None
) -> None:
    read(broker, group, filled, 2 * RECORDS)
    (row,) = groups.rows("--delete-offsets", "--group", group, "--topic", filled)
    assert (row["TOPIC"], row["STATUS"]) == (filled, "Successful")
    assert "has no offset information" in groups("--describe", "--group", group)
    read(broker, group, filled, 2 * RECORDS)  # as if for the first time
    assert "was successful" in groups("--delete", "--group", group)
    assert group not in groups("--list").split()
    read(broker, group, filled, 2 * RECORDS)


def test_names_that_no_share_group_has(groups: Groups, group: str) -> None:
    told = groups.attempt("--describe", "--group", group)
    assert f"Group {group} not found" in told.out + told.err
    told = groups.attempt("--delete", "--group", group)
    assert "is not a share group" in told.out + told.err
