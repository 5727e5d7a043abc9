"""`penstock group`, against a real broker and with real members."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.oracle.nodes import Node
from tests.unit.cli.runner import Penstock

SECONDS_MAX = 30
HOUR_MS = 3_600_000
PROTOCOLS = ("classic", "consumer")


@pytest.fixture
def penstock(broker: Node, tmp_path: Path) -> Penstock:
    return Penstock(tmp_path, broker.bootstrap)


@pytest.fixture
def orders(penstock: Penstock, broker: Node, topic: str) -> str:
    """A topic of two partitions; partition 0 holds ten records, the oldest an hour old."""
    penstock.out("topic", "create", topic, "-p", "2")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    began = round(time.time() * 1000) - HOUR_MS
    for number in range(10):
        producer.produce(topic, b"x", partition=0, timestamp=began + number * 60_000)
    assert producer.flush(SECONDS_MAX) == 0
    return topic


def commit(broker: Node, group: str, *places: TopicPartition) -> None:
    """Commit for a group that has no members."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=list(places), asynchronous=False)
    consumer.close()


@pytest.fixture
def joined(broker: Node) -> Iterator[Callable[..., Consumer]]:
    """Makes a member of a group that has been given its partitions; it leaves with the test."""
    members: list[Consumer] = []

    def join(group: str, topic: str, protocol: str = "classic", **more: str) -> Consumer:
        settings = {key.replace("_", "."): value for key, value in more.items()}
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "client.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **settings,
            }
        )
        members.append(consumer)
        given: list[TopicPartition] = []
        consumer.subscribe([topic], on_assign=lambda _, partitions: given.extend(partitions))
        deadline = time.monotonic() + SECONDS_MAX
        while not given:
            assert time.monotonic() < deadline, f"nothing was assigned in group {group}"
            consumer.poll(0.1)
        return consumer

    yield join
    for member in members:
        member.close()


def describe(penstock: Penstock, group: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(penstock.out("group", "describe", group, "-o", "json"))
    return found


def described_when(
    penstock: Penstock, group: str, settled: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The group once it is as wanted: members need a heartbeat to be seen where they are."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        found = describe(penstock, group)
        if settled(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_is_described_with_its_member_and_what_it_reads(
    penstock: Penstock,
    broker: Node,
    orders: str,
    joined: Callable[..., Consumer],
    protocol: str,
) -> None:
    member = joined(orders, orders, protocol)
    member.commit(offsets=[TopicPartition(orders, 0, 4)], asynchronous=False)
    found = described_when(penstock, orders, lambda found: found["state"] == "stable")
    assert (found["group"], found["type"]) == (orders, protocol)
    assert found["assignor"] == {"classic": "range", "consumer": "uniform"}[protocol]
    assert found["coordinator"] == {"id": 1, "host": "127.0.0.1", "port": broker.port}
    (one,) = found["members"]
    assert (one["client"], one["host"], one["instance"]) == ("reader", "127.0.0.1", None)
    assert one["assignment"] == {orders: [0, 1]}
    first, second = found["offsets"]
    assert first == {
        "topic": orders,
        "partition": 0,
        "committed": 4,
        "end": 10,
        "lag": 6,
        "member": one["member"],
    }
    assert (second["committed"], second["end"], second["lag"]) == (None, 0, None)
    table = penstock.out("group", "describe", orders)
    assert f"{orders}:0,1" in table
    assert one["member"] in table


def test_a_static_member_is_shown_by_its_own_name(
    penstock: Penstock, orders: str, joined: Callable[..., Consumer]
) -> None:
    joined(orders, orders, group_instance_id="reader-7")
    (member,) = describe(penstock, orders)["members"]
    assert member["instance"] == "reader-7"
    assert "reader-7" in penstock.out("group", "describe", orders)


def test_groups_are_listed_with_state_type_and_members(
    penstock: Penstock, broker: Node, orders: str, joined: Callable[..., Consumer]
) -> None:
    joined(f"{orders}-b", orders)
    commit(broker, f"{orders}-a", TopicPartition(orders, 0, 1))
    pattern = f"{orders}-*"
    lines = penstock.out("group", "list", pattern).splitlines()
    assert lines[0].split() == ["GROUP", "TYPE", "STATE", "MEMBERS", "COORDINATOR"]
    assert [line.split() for line in lines[1:]] == [
        [f"{orders}-a", "classic", "empty", "0", "1"],
        [f"{orders}-b", "classic", "stable", "1", "1"],
    ]
    assert penstock.out("group", "list", pattern, "-q") == f"{orders}-a\n{orders}-b\n"
    as_json = json.loads(penstock.out("group", "list", pattern, "-o", "json"))
    assert as_json == yaml.safe_load(penstock.out("group", "list", pattern, "-o", "yaml"))
    assert penstock.out("group", "list", pattern, "-q", "-s", "empty") == f"{orders}-a\n"
    both = ("-s", "empty", "-s", "stable", "--type", "classic")
    assert len(penstock.out("group", "list", pattern, "-q", *both).splitlines()) == 2
    assert penstock.out("group", "list", pattern, "-q", "--type", "share") == ""


def test_new_groups_are_listed_as_such(
    penstock: Penstock, orders: str, joined: Callable[..., Consumer]
) -> None:
    joined(orders, orders, "consumer")
    described_when(penstock, orders, lambda found: found["state"] == "stable")
    (listed,) = json.loads(penstock.out("group", "list", orders, "-o", "json"))
    assert (listed["type"], listed["state"], listed["members"]) == ("consumer", "stable", 1)
    assert penstock.out("group", "list", orders, "-q", "--type", "classic") == ""


def test_a_group_that_is_not_there_is_told_of(penstock: Penstock, topic: str) -> None:
    for verb in ("describe", "lag"):
        ran = penstock("group", verb, topic)
        assert ran.returncode == 1
        assert "GROUP_ID_NOT_FOUND" in ran.stderr
        assert "penstock group list" in ran.stderr
    ran = penstock("group", "delete", topic, "-y")
    assert (ran.returncode, "GROUP_ID_NOT_FOUND" in ran.stderr) == (1, True)
    assert penstock("group", "delete", topic, "-y", "--if-exists").returncode == 0


def test_lag_is_told_in_records_and_in_time(penstock: Penstock, broker: Node, orders: str) -> None:
    commit(broker, orders, TopicPartition(orders, 0, 4), TopicPartition(orders, 1, 0))
    lagging = json.loads(penstock.out("group", "lag", orders, "-o", "json"))
    behind, level = lagging["partitions"]
    assert (behind["committed"], behind["end"], behind["lag"]) == (4, 10, 6)
    assert behind["seconds"] == pytest.approx(3600 - 4 * 60, abs=60)
    assert (level["lag"], level["seconds"]) == (0, 0.0)
    assert lagging["total"] == {"partitions": 2, "lag": 6, "seconds": behind["seconds"]}
    summary = penstock.out("group", "lag", orders).splitlines()[1].split()
    assert summary[:4] == [orders, "empty", "2", "6"]
    assert summary[4].startswith(("56m", "57m"))


def test_the_age_is_that_of_what_can_still_be_read(
    penstock: Penstock, broker: Node, orders: str
) -> None:
    from confluent_kafka.admin import AdminClient

    commit(broker, orders, TopicPartition(orders, 0, 1))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (trimmed,) = admin.delete_records([TopicPartition(orders, 0, 8)]).values()
    trimmed.result(SECONDS_MAX)
    (row,) = json.loads(penstock.out("group", "lag", orders, "-o", "json"))["partitions"]
    assert row["lag"] == 9
    assert row["seconds"] == pytest.approx(3600 - 8 * 60, abs=60)


def test_a_watch_goes_on_until_it_is_interrupted(
    penstock: Penstock, broker: Node, orders: str
) -> None:
    commit(broker, orders, TopicPartition(orders, 0, 4))
    watching = penstock.start("group", "lag", orders, "--watch", "-o", "json")
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    assert first["total"]["lag"] == 6
    commit(broker, orders, TopicPartition(orders, 0, 9))
    deadline = time.monotonic() + SECONDS_MAX
    while json.loads(watching.stdout.readline())["total"]["lag"] != 1:
        assert time.monotonic() < deadline
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=SECONDS_MAX)
    assert (watching.returncode, errors) == (0, b"")


def test_a_watch_draws_over_itself_on_a_terminal(
    penstock: Penstock, broker: Node, orders: str
) -> None:
    commit(broker, orders, TopicPartition(orders, 0, 4))
    ours, its = pty.openpty()
    watching = subprocess.Popen(
        penstock.command("group", "lag", orders, "--watch"),
        stdin=its,
        stdout=its,
        stderr=subprocess.PIPE,
        env={**penstock.environment, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(its)
    drawn = b""
    deadline = time.monotonic() + SECONDS_MAX
    while drawn.count(b"behind") < 5:  # twice in each picture
        assert time.monotonic() < deadline, drawn
        drawn += os.read(ours, 4096)
    watching.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # how Linux tells that the other side is closed
        while os.read(ours, 4096):
            pass
    os.close(ours)
    _, errors = watching.communicate(timeout=SECONDS_MAX)
    assert (watching.returncode, errors) == (0, b"")
    assert b"\x1b[1A" in drawn, "the cursor goes back up"
    assert orders.encode() in drawn


def reset(penstock: Penstock, group: str, *words: str) -> dict[int, tuple[int | None, int]]:
    moves = json.loads(penstock.out("group", "reset", group, *words, "-o", "json"))
    return {one["partition"]: (one["old"], one["new"]) for one in moves}


def committed(penstock: Penstock, group: str) -> dict[int, int]:
    return {one["partition"]: one["committed"] for one in describe(penstock, group)["offsets"]}


def test_offsets_go_where_they_are_told_to(penstock: Penstock, broker: Node, orders: str) -> None:
    commit(broker, orders, TopicPartition(orders, 0, 4))
    everywhere = ("-t", orders)
    assert reset(penstock, orders, *everywhere, "--to-latest") == {0: (4, 10), 1: (None, 0)}
    assert committed(penstock, orders) == {0: 10, 1: 0}
    assert reset(penstock, orders, *everywhere, "--shift-by", "-3") == {0: (10, 7), 1: (0, 0)}
    assert reset(penstock, orders, "-t", f"{orders}:0", "--to-earliest") == {0: (7, 0)}
    assert reset(penstock, orders, "-t", f"{orders}:0", "--to-offset", "99") == {0: (0, 10)}
    assert reset(penstock, orders, "--all-topics", "--by-duration", "PT55M") == {
        0: (10, 6),
        1: (0, 0),
    }
    since = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - 3600 + 150))
    assert reset(penstock, orders, "-t", f"{orders}:0", "--to-time", since)[0][1] == 3
    assert reset(penstock, orders, "-t", f"{orders}:0", "--to-current") == {0: (3, 3)}
    assert committed(penstock, orders) == {0: 3, 1: 0}


def test_a_group_comes_to_be_by_a_reset(penstock: Penstock, orders: str) -> None:
    assert reset(penstock, orders, "-t", orders, "--to-latest") == {0: (None, 10), 1: (None, 0)}
    assert describe(penstock, orders)["state"] == "empty"


def test_a_dry_run_shows_old_and_new_and_sets_nothing(
    penstock: Penstock, broker: Node, orders: str
) -> None:
    commit(broker, orders, TopicPartition(orders, 0, 4))
    ran = penstock("group", "reset", orders, "-t", f"{orders}:0", "--to-earliest", "--dry-run")
    assert ran.returncode == 0
    assert [line.split() for line in ran.stdout.splitlines()] == [
        ["TOPIC", "PARTITION", "OLD", "NEW", "CHANGE"],
        [orders, "0", "4", "0", "-4"],
    ]
    assert "could be set" in ran.stderr
    assert committed(penstock, orders) == {0: 4}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_keeps_its_offsets(
    penstock: Penstock, orders: str, joined: Callable[..., Consumer], protocol: str
) -> None:
    member = joined(orders, orders, protocol)
    member.commit(offsets=[TopicPartition(orders, 0, 4)], asynchronous=False)
    for words in (("--to-earliest",), ("--to-earliest", "--dry-run")):
        ran = penstock("group", "reset", orders, "-t", orders, *words)
        assert ran.returncode == 1
        assert "with 1 member" in ran.stderr
        assert "stop its members first" in ran.stderr
    gone = penstock("group", "delete", orders, "--yes")
    assert gone.returncode == 1
    assert "NON_EMPTY_GROUP" in gone.stderr
    offsets = penstock("group", "delete", orders, "--yes", "--topic", orders)
    assert offsets.returncode == 1
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in offsets.stderr
    assert committed(penstock, orders)[0] == 4


def test_a_reset_of_what_is_not_there_is_refused(
    penstock: Penstock, broker: Node, orders: str
) -> None:
    for words, problem in (
        (("-t", f"{orders}-none"), f"there is no topic {orders}-none"),
        (("-t", f"{orders}:7"), f"topic {orders} has no partition 7"),
        (("-t", f"{orders}:one"), "names no partitions"),
        (("--all-topics",), "has committed nothing"),
    ):
        ran = penstock("group", "reset", orders, *words, "--to-latest")
        assert ran.returncode in (1, 2)
        assert problem in ran.stderr
    commit(broker, orders, TopicPartition(orders, 0, 4))
    ran = penstock("group", "reset", orders, "-t", orders, "--shift-by", "1")
    assert "nothing is committed in" in ran.stderr
    assert committed(penstock, orders) == {0: 4}


def test_offsets_and_groups_are_deleted(penstock: Penstock, broker: Node, orders: str) -> None:
    commit(broker, orders, TopicPartition(orders, 0, 4), TopicPartition(orders, 1, 0))
    ran = penstock("group", "delete", orders, "--yes", "-t", f"{orders}:1")
    assert ran.returncode == 0
    assert ran.stderr == f"deleted offsets of group {orders} in {orders}-1\n"
    assert committed(penstock, orders) == {0: 4}
    gone = penstock("group", "delete", orders, "--yes")
    assert (gone.returncode, gone.stdout, gone.stderr) == (0, "", f"deleted group {orders}\n")
    assert penstock.out("group", "list", orders, "-q") == ""
