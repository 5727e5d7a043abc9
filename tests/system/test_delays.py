"""Delayed records through real clients: on time, once, whatever ends meanwhile."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from penstock.model.delays import DELAY_MS
from penstock.testing.history import Place
from tests.oracle.nodes import Node
from tests.oracle.tools import Tools
from tests.system.chaos.trio import Trio
from tests.system.delays import (
    ENABLED,
    SECONDS_MAX,
    Headers,
    check_times,
    create,
    now_ms,
    read_all,
    receive,
    send,
    spread,
)
from tests.unit.cli.runner import Penstock

pytestmark = pytest.mark.penstock_only

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
LATE_MS_MAX = 50


def test_records_are_delivered_at_their_time_and_not_before(broker: Node, topic: str) -> None:
    create(broker, topic)
    due = spread(40, now_ms() + 2_000, 25)
    send(broker.bootstrap, topic, dict(reversed(due.items())))
    found = receive(broker.bootstrap, topic, len(due))
    late = check_times(found, due)
    assert [one.value for one in found] == list(due)
    # Of most: this machine may have other things to do at some of these moments.
    assert late[len(late) // 2] <= LATE_MS_MAX
    arrived = sorted(one.arrived_at - due[one.value] for one in found)
    assert arrived[len(arrived) // 2] <= LATE_MS_MAX


def test_a_bad_header_is_refused_in_words(broker: Node, topic: str) -> None:
    create(broker, topic, penstock_delivery_delay_max_ms="60000")
    refusals: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for delay in ("soon", "-5", "60001"):
        producer.produce(
            topic,
            b"x",
            headers=[(DELAY_MS, delay.encode())],
            on_delivery=lambda error, _: refusals.append(error.name() if error else "taken"),
        )
        assert producer.flush(SECONDS_MAX) == 0
    assert refusals == ["INVALID_RECORD"] * 3
    assert read_all(broker.bootstrap, topic) == []


def test_crashes_around_their_times_neither_lose_nor_double_records(
    make_node: Callable[..., Node], topic: str
) -> None:
    node = make_node()
    node.start()
    create(node, topic, segment_bytes="1048576")
    due = spread(600, now_ms() + 2_500, 8)
    send(node.bootstrap, topic, due)
    time.sleep(1.5)
    for _ in range(3):
        time.sleep(1.0)
        node.kill()
        node.start()
    found = receive(node.bootstrap, topic, len(due))
    check_times(found, due)
    time.sleep(0.3)
    assert sorted(read_all(node.bootstrap, topic)) == sorted(due)


def test_records_of_transactions_come_after_the_commit_and_never_after_an_abort(
    broker: Node, topic: str
) -> None:
    create(broker, topic)
    for number, ends_well in enumerate([True, False, True]):
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{number}"}
        )
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
        for delay in (b"1", b"300"):
            value = f"{number}-{delay.decode()}"
            producer.produce(topic, value, partition=0, headers=[(DELAY_MS, delay)])
        assert producer.flush(SECONDS_MAX) == 0
        if ends_well:
            producer.commit_transaction(SECONDS_MAX)
        else:
            producer.abort_transaction(SECONDS_MAX)
    wanted = ["0-1", "2-1", "0-300", "2-300"]
    found = receive(broker.bootstrap, topic, len(wanted))
    assert sorted(one.value for one in found) == sorted(wanted)
    time.sleep(0.4)
    assert sorted(read_all(broker.bootstrap, topic)) == sorted(wanted)


# -- other clients --------------------------------------------------------------------------------


@pytest.fixture
def mixed(broker: Node, topic: str) -> str:
    """A topic with everything in its log: parked, emptied, delivered, cancelled, plain batches."""
    create(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    for number in range(20):
        headers: Headers = [(DELAY_MS, b"30")] if number % 3 == 0 else []
        producer.produce(topic, str(number), partition=0, headers=headers)
    assert producer.flush(SECONDS_MAX) == 0
    send(broker.bootstrap, topic, dict.fromkeys(("20", "21"), now_ms() + 3_000))
    receive(broker.bootstrap, topic, 22)
    return topic


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_aiokafka_reads_what_is_delivered_and_nothing_else(
    broker: Node, mixed: str, isolation: str
) -> None:
    async def read() -> list[int]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, isolation_level=isolation, check_crcs=True
        )
        await consumer.start()
        try:
            place = AioPartition(mixed, 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            found: list[int] = []
            async with asyncio.timeout(SECONDS_MAX):
                while len(found) < 22:
                    batches = await consumer.getmany(timeout_ms=500)
                    found += [int(one.value) for records in batches.values() for one in records]
                end = (await consumer.end_offsets([place]))[place]
                while await consumer.position(place) < end:
                    await asyncio.sleep(0.05)
            return found
        finally:
            await consumer.stop()

    assert sorted(asyncio.run(read())) == list(range(22))


@pytest.mark.java
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_apaches_consumer_reads_what_is_delivered_and_nothing_else(
    broker: Node, tools: Tools, mixed: str, isolation: str
) -> None:
    out = tools.check(
        CONSOLE, "--bootstrap-server", broker.bootstrap, "--topic", mixed, "--from-beginning",
        "--isolation-level", isolation, "--timeout-ms", "20000", "--max-messages", "22",
    )  # fmt: skip
    assert sorted(map(int, out.split())) == list(range(22))


@pytest.mark.java
def test_apaches_tool_takes_the_files_for_sound(broker: Node, tools: Tools, mixed: str) -> None:
    (path,) = (broker.data / f"{mixed}-0").glob("*.log")
    out = tools.check("DumpLogSegments", "--files", str(path), "--deep-iteration")
    assert "isvalid: false" not in out
    assert out.count("isControl: true") >= 4


@pytest.mark.kcat
def test_kcat_reads_what_is_delivered_and_nothing_else(broker: Node, mixed: str) -> None:
    ran = subprocess.run(
        ["kcat", "-b", broker.bootstrap, "-C", "-t", mixed, "-o", "beginning", "-e", "-q"],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    assert sorted(map(int, ran.stdout.split())) == list(range(22))


# -- commands -------------------------------------------------------------------------------------


def test_delayed_records_are_listed_and_cancelled_by_command(
    broker: Node, topic: str, tmp_path: Path
) -> None:
    penstock = Penstock(tmp_path, broker.bootstrap)
    create(broker, topic)
    start = now_ms() + 3_600_000
    due = spread(5, start, 1_000)
    told = send(broker.bootstrap, topic, due)

    def listed(*words: str) -> list[int]:
        found = json.loads(penstock.out("delayed", "list", topic, "-o", "json", *words))
        return [one["offset"] for one in found]

    assert listed() == list(told.values())
    assert listed("--limit", "2") == list(told.values())[:2]
    assert listed("--before", f"@{start + 2_000}") == list(told.values())[:2]
    assert listed("--before", "10m") == []

    first = str(told["value-00000"])
    one = ("delayed", "cancel", topic, "--partition", "0", "--offset", first)
    assert json.loads(penstock.out(*one, "--dry-run", "-o", "json"))[0]["deliver_at"] == start
    assert len(listed()) == 5
    penstock.out(*one)
    assert listed() == list(told.values())[1:]
    again = penstock(*one)
    assert again.returncode != 0
    assert "not waiting" in again.stderr

    rest = penstock.out(
        "delayed", "cancel", topic, "--all", "--before", f"@{start + 3_000}", "--yes"
    )
    assert rest.count("+") + rest.count("Z") >= 2, rest
    assert listed() == list(told.values())[3:]
    assert penstock("delayed", "cancel", topic).returncode == 2


# -- disks and nodes ------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(where)], check=True)
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.mark.root
def test_a_disk_that_is_full_when_they_are_due_only_delays_them(
    make_node: Callable[..., Node], small_disk: Path, tmp_path: Path, topic: str
) -> None:
    config = {"metadata.log.dir": str(tmp_path / "metadata")}
    with make_node(data=small_disk, config=config) as node:
        create(node, topic)
        due = {f"value-{number}" + "x" * 200_000: now_ms() + 2_500 for number in range(10)}
        send(node.bootstrap, topic, due)
        (small_disk / "ballast").write_bytes(b"")
        with open(small_disk / "ballast", "ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(65_536))
            except OSError:
                pass
        time.sleep(3.5)
        assert read_all(node.bootstrap, topic) == []
        (small_disk / "ballast").unlink()
        found = receive(node.bootstrap, topic, len(due))
        check_times(found, due)
        # Not compared as they are: to tell how they differ would take minutes.
        assert Counter(value[:10] for value in read_all(node.bootstrap, topic)) == {
            value[:10]: 1 for value in due
        }


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_another_leader_delivers_what_the_first_one_could_not(
    target: type[Node], tmp_path: Path, topic: str
) -> None:
    with Trio(tmp_path, target) as trio:
        made = NewTopic(topic, 1, 3, config=ENABLED)
        trio.admin.create_topics([made])[topic].result(SECONDS_MAX)
        due = spread(400, now_ms() + 2_500, 10)
        send(trio.bootstrap, topic, due)
        for _ in range(2):
            time.sleep(1.0)
            leader = trio.leader(Place(topic, 0))
            trio.members[leader].kill()
            time.sleep(1.0)
            trio.members[leader].node.launch()
            trio.wait_settled()
        found = receive(trio.bootstrap, topic, len(due))
        check_times(found, due)
        time.sleep(0.5)
        assert sorted(read_all(trio.bootstrap, topic)) == sorted(due)
