"""penstock.patterns against real servers, Penstock's and Apache's: crashes, moves, waits.

Each test's group has the name of its topic: members with a name of their own stay in a group for a
while after their end.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.model import dead_letters
from penstock.patterns import (
    AsyncWorker,
    Backoff,
    GaveUp,
    MemoryStore,
    Message,
    NotReady,
    Once,
    Reject,
    Worker,
    by_header,
    retry_topic,
)
from tests.oracle.nodes import REPOSITORY, TARGETS, Node
from tests.system.pattern_server import (
    SECONDS_MAX,
    Lives,
    Server,
    assert_in_order,
    header,
    run_until,
    wait_until,
)


@pytest.fixture(scope="module", params=["penstock", pytest.param("apache", marks=pytest.mark.java)])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """For what both have to be good for."""
    with TARGETS[request.param](tmp_path_factory.mktemp("server")) as node:
        yield Server(node)


@pytest.fixture
def ours(broker: Node) -> Server:
    """For what one server is enough for."""
    return Server(broker)


# -- on one server ---------------------------------------------------------------------------------


def test_a_failing_message_is_retried_in_its_place_and_buried_after_the_last_try(
    ours: Server, topic: str
) -> None:
    ours.create(topic)
    ours.fill(topic, 200)
    handled: dict[bytes, list[int]] = defaultdict(list)
    tries: Counter[bytes] = Counter()

    def handle(message: Message) -> None:
        assert message.key is not None and message.value is not None
        tries[message.value] += 1
        assert message.attempt == tries[message.value]
        if message.value == b"7" and message.attempt < 3:
            raise ConnectionError("not yet")
        if message.value == b"8":
            raise ValueError("never")
        if message.value == b"9":
            raise Reject("of no use")
        handled[message.key].append(int(message.value))

    backoff = Backoff(first=0.05, multiplier=1, tries=4)
    worker = Worker(ours.client(topic), topic, handle, retry=backoff, dead_letter=f"dlq.{topic}")
    run_until(worker, lambda: worker.counts.handled + worker.counts.buried == 200)

    assert (tries[b"7"], tries[b"8"], tries[b"9"]) == (3, 4, 1)
    assert all(values == sorted(values) for values in handled.values())
    assert handled[b"k7"][0] == 7, "what came after it in its key waited"
    assert sum(map(len, handled.values())) == 198
    ours.assert_all_committed(topic, topic)
    letters = {it.value(): it for it in ours.read(f"dlq.{topic}", 2)}
    assert header(letters[b"8"], dead_letters.MESSAGE) == b"ValueError: never"
    assert header(letters[b"8"], dead_letters.DELIVERY_COUNT) == b"4"
    assert header(letters[b"9"], dead_letters.REASON) == b"rejected"


def test_without_a_dead_letter_topic_the_worker_ends_and_the_message_comes_again(
    ours: Server, topic: str
) -> None:
    ours.create(topic, 1)
    ours.fill(topic, 10)
    broken = True

    def handle(message: Message) -> None:
        if broken and message.value == b"5":
            raise ValueError("no")

    for _ in range(2):
        with pytest.raises(GaveUp, match=r"offset 5 .*ValueError: no.*dead_letter="):
            Worker(ours.client(topic), topic, handle).run()
        assert ours.committed(topic, topic)[0][0] == 5
    broken = False
    worker = Worker(ours.client(topic), topic, handle)
    run_until(worker, lambda: worker.counts.handled == 5)
    ours.assert_all_committed(topic, topic)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_that_move_between_members_lose_nothing_and_keep_order(
    ours: Server, topic: str, strategy: str
) -> None:
    ours.create(topic, 6)
    ours.fill(topic, 1_500)
    lock = threading.Lock()
    handled: list[tuple[bytes | None, int]] = []
    told: list[str] = []
    """The same with names, for whoever wants to know who did something twice."""

    def member(name: str) -> Worker:
        def handle(message: Message) -> None:
            time.sleep(0.005)
            with lock:
                handled.append((message.key, message.offset))
                told.append(f"{time.monotonic():.3f} {name} {message.partition}:{message.offset}")

        quick = {"heartbeat.interval.ms": 100, "partition.assignment.strategy": strategy}
        return Worker(ours.client(topic) | quick, topic, handle, workers=2, in_flight_max=50)

    first, second = member("first"), member("second")
    threads = [threading.Thread(target=each.run, daemon=True) for each in (first, second)]
    threads[0].start()
    wait_until(lambda: len(handled) > 100, "the first member handles nothing")
    threads[1].start()
    wait_until(lambda: second.counts.handled > 50, "the second member gets nothing")
    first.stop()
    threads[0].join(SECONDS_MAX)
    wait_until(lambda: len(set(handled)) == 1_500, "not all is handled")
    second.stop()
    threads[1].join(SECONDS_MAX)

    times = Counter(handled)
    twice = [line for line, each in zip(told, handled, strict=True) if times[each] > 1]
    assert twice == [], "who gives back in order leaves nothing to do twice"
    assert_in_order(handled)
    ours.assert_all_committed(topic, topic)


def test_coroutines_handle_many_at_a_time_and_end_in_order_when_cancelled(
    ours: Server, topic: str
) -> None:
    ours.create(topic)
    ours.fill(topic, 300)
    at_once, most = 0, 0

    async def handle(message: Message) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        if message.value == b"3" and message.attempt == 1:
            raise OSError("at first")

    async def scene() -> AsyncWorker:
        worker = AsyncWorker(
            ours.client(topic), topic, handle, retry=Backoff(first=0.05), workers=15
        )
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(SECONDS_MAX):
            while worker.counts.handled < 300:
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return worker

    worker = asyncio.run(scene())
    assert (worker.counts.handled, worker.counts.failed) == (300, 1)
    assert 5 < most <= 15
    ours.assert_all_committed(topic, topic)


def test_what_a_producer_sent_twice_is_handled_once(ours: Server, topic: str) -> None:
    ours.create(topic)
    for _ in range(2):
        for number in range(20):
            ours.send(topic, b"", b"%d" % number, headers={"message-id": b"m%d" % number})
    calls: Counter[bytes | None] = Counter()
    once = Once(MemoryStore(), by_header("message-id"))
    worker = Worker(
        ours.client(topic), topic, lambda message: calls.update([message.key]), once=once
    )
    run_until(worker, lambda: worker.counts.handled + worker.counts.skipped == 40)
    assert set(calls.values()) == {1}
    assert (len(calls), worker.counts.skipped) == (20, 20)


def test_messages_that_are_too_old_are_dropped_or_buried(ours: Server, topic: str) -> None:
    ours.create(topic, 1)
    hour_ago = int(time.time() * 1000) - 3_600_000
    ours.send(topic, b"old", b"a", timestamp=hour_ago, headers={"penstock-ttl-ms": b"1000"})
    ours.send(topic, b"young", b"b", headers={"penstock-ttl-ms": b"3600000"})
    ours.send(topic, b"ageless", b"c", timestamp=hour_ago)
    for bury in (False, True):
        handled: list[bytes | None] = []
        worker = Worker(
            ours.client(f"{topic}-{bury}"),
            topic,
            lambda message, handled=handled: handled.append(message.value),  # type: ignore[misc]
            honour_ttl=True,
            bury_expired=bury,
            dead_letter=f"dlq.{topic}" if bury else None,
        )
        run_until(worker, lambda w=worker: w.counts.handled == 2 and _gone(w) == 1)  # type: ignore[misc]
        assert sorted(handled) == [b"ageless", b"young"]  # type: ignore[type-var]
    (letter,) = ours.read(f"dlq.{topic}", 1)
    assert (letter.value(), header(letter, dead_letters.REASON)) == (b"old", b"expired")


def _gone(worker: Worker) -> int:
    return worker.counts.expired + worker.counts.buried


def test_a_dead_letter_that_is_too_large_says_where_the_message_is(
    ours: Server, topic: str
) -> None:
    ours.create(topic, 1)
    ours.create(f"dlq.{topic}", 1, max_message_bytes="1000")
    ours.send(topic, b"x" * 5_000, b"key")

    def handle(_: Message) -> None:
        raise Reject("no")

    worker = Worker(ours.client(topic), topic, handle, dead_letter=f"dlq.{topic}")
    run_until(worker, lambda: worker.counts.buried == 1)
    (letter,) = ours.read(f"dlq.{topic}", 1)
    assert (letter.key(), letter.value()) == (None, None)
    assert header(letter, dead_letters.COPIED) == b"false"
    assert header(letter, dead_letters.OFFSET) == b"0"


def test_while_dead_letters_cannot_be_written_nothing_is_committed_past_them(
    ours: Server, topic: str
) -> None:
    ours.create(topic, 1)
    ours.fill(topic, 10)
    dead = f"dlq.{topic}"
    ours.create(dead, 1, max_message_bytes="10")

    def handle(message: Message) -> None:
        if message.value == b"4":
            raise Reject("no")

    worker = Worker(ours.client(topic), topic, handle, dead_letter=dead, commit_seconds=0.1)
    before: list[int] = []

    def mend() -> bool:
        if not before and worker.counts.handled == 9:
            time.sleep(1.0)
            before.append(ours.committed(topic, topic)[0][0])
            ours.set(dead, "max.message.bytes", "1000")
        return worker.counts.buried == 1

    run_until(worker, mend)
    assert before == [4]
    ours.assert_all_committed(topic, topic)


def test_a_server_that_dies_and_comes_back_is_worked_with_again(
    make_node: Callable[..., Node], topic: str
) -> None:
    node = make_node()
    node.start()
    its = Server(node)
    its.create(topic)
    its.fill(topic, 600)
    handled: list[tuple[bytes | None, int]] = []

    def handle(message: Message) -> None:
        time.sleep(0.005)
        handled.append((message.key, message.offset))

    def crash() -> None:
        wait_until(lambda: len(handled) > 100, "nothing is handled")
        node.kill()
        node.start()

    crashing = threading.Thread(target=crash, daemon=True)
    crashing.start()
    worker = Worker(its.client(topic), topic, handle, workers=4, commit_seconds=0.1)
    run_until(worker, lambda: len(set(handled)) == 600 and its.is_committed(topic, topic))
    crashing.join()
    assert_in_order(handled)
    its.assert_all_committed(topic, topic)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "no topic missing on the server: create it first"),
        (
            {"dead_letter": "dlq.x", "create_topics": False},
            "create topic dlq.x with 3 partitions and retention.ms=-1, or",
        ),
        (
            {"retry": Backoff(first=60), "keep_order": False, "create_topics": False},
            "create topic retry.{topic}.{topic} with 3 partitions and penstock",
        ),
    ],
)
def test_what_is_missing_is_said_before_anything_is_read(
    ours: Server, topic: str, options: dict[str, object], told: str
) -> None:
    ours.create(topic)
    source = topic if options else "missing"
    worker = Worker(ours.client(topic), source, print, **options)  # type: ignore[arg-type]
    with pytest.raises(NotReady, match=told.format(topic=topic)):
        worker.run()


# -- on both servers -------------------------------------------------------------------------------


def test_a_long_wait_is_spent_in_a_retry_topic_and_commits_go_on(
    server: Server, topic: str
) -> None:
    server.create(topic, 2)
    server.fill(topic, 40)
    began: dict[bytes, list[float]] = defaultdict(list)

    def handle(message: Message) -> None:
        assert message.value is not None
        assert message.topic == topic
        began[message.value].append(time.monotonic())
        assert message.attempt == len(began[message.value])
        if message.value in (b"3", b"4") and message.attempt == 1:
            raise ConnectionError("later")
        if message.value == b"5":
            raise ValueError("never")

    worker = Worker(
        server.client(topic),
        topic,
        handle,
        retry=Backoff.of(1.0, 0.5),
        hold_seconds=0,
        keep_order=False,
        dead_letter=f"dlq.{topic}",
        commit_seconds=0.1,
    )
    run_until(worker, lambda: worker.counts.handled == 39 and worker.counts.buried == 1)
    assert worker.counts.parked == 4
    for value in (b"3", b"4", b"5"):
        waits = [later - sooner for sooner, later in pairwise(began[value])]
        assert all(wait >= least for wait, least in zip(waits, (0.99, 0.49), strict=False))
    server.assert_all_committed(topic, topic)
    (letter,) = server.read(f"dlq.{topic}", 1)
    assert header(letter, dead_letters.TOPIC) == topic.encode()
    assert header(letter, dead_letters.DELIVERY_COUNT) == b"3"
    steps = (None,) if server.node.name == "Penstock" else (1.0, 0.5)
    there = set(server.admin.list_topics(timeout=10).topics)
    assert {retry_topic(topic, topic, step) for step in steps} <= there


@pytest.fixture
def lives() -> Iterator[Callable[..., Lives]]:
    made: list[Lives] = []

    def make(*words: str) -> Lives:
        made.append(Lives(*words))
        return made[-1]

    yield make
    for each in made:
        each.process.kill()
        each.process.wait()


def test_workers_that_are_killed_lose_nothing_and_keep_the_order_of_keys(
    server: Server, topic: str, tmp_path: Path, lives: Callable[..., Lives]
) -> None:
    server.create(topic, 4)
    server.fill(topic, 2_000)
    path = tmp_path / "handled"
    path.touch()
    words = ("lines", server.node.bootstrap, topic, topic)
    members = [lives(*words, f"member-{number}", str(path)) for number in range(2)]
    for victim, count in ((0, 200), (1, 700), (0, 1_200)):
        wait_until(lambda count=count: len(_lines(path)) > count, "no progress")  # type: ignore[misc]
        members[victim].kill()
    wait_until(lambda: len(set(_lines(path))) == 2_000, "not all is handled")
    wait_until(lambda: server.is_committed(topic, topic), "not all is committed")
    for member in members:
        member.end()
    assert_in_order(_lines(path))
    assert len(_lines(path)) < 2_000 + 3 * 4 * 100, "no more than what was in hand is done twice"
    server.assert_all_committed(topic, topic)


def test_a_record_that_kills_every_worker_is_put_aside(
    server: Server, topic: str, tmp_path: Path, lives: Callable[..., Lives]
) -> None:
    server.create(topic, 2)
    server.fill(topic, 40)
    server.send(topic, b"poison", b"k3")
    server.fill(topic, 40)
    path = tmp_path / "handled"
    path.touch()
    worker = lives("lines", server.node.bootstrap, topic, topic, "member", str(path))

    def done() -> bool:
        worker.keep()
        return len(set(_lines(path))) == 80

    wait_until(done, "the workers do not come past it")
    wait_until(lambda: server.is_committed(topic, topic), "not all is committed")
    worker.end()
    (letter,) = server.read(f"dlq.{topic}", 1)
    assert (letter.value(), header(letter, dead_letters.REASON)) == (b"poison", b"crashed")
    assert worker.count == 2 + 1 + 1, "twice unknown, once alone, and one that buried it"
    assert_in_order(_lines(path))


def test_what_is_done_in_the_transaction_of_its_mark_is_done_once_whatever_is_killed(
    ours: Server, topic: str, tmp_path: Path, lives: Callable[..., Lives]
) -> None:
    ours.create(topic, 2)
    ours.fill(topic, 120)
    path = tmp_path / "bills.db"
    worker = lives("bills", ours.node.bootstrap, topic, topic, "member", str(path))

    def bills() -> list[str]:
        if not path.exists():
            return []
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as db:
            if not db.execute("select 1 from sqlite_master where name = 'bills'").fetchone():
                return []
            return [value for (value,) in db.execute("select value from bills")]

    for count in (25, 70):
        wait_until(lambda count=count: len(bills()) > count, "no progress")  # type: ignore[misc]
        worker.kill()
    wait_until(lambda: len(set(bills())) == 120, "not all is billed")
    wait_until(lambda: ours.is_committed(topic, topic), "not all is committed")
    worker.end()
    assert sorted(bills(), key=int) == [str(number) for number in range(120)]
    ours.assert_all_committed(topic, topic)


def _lines(path: Path) -> list[tuple[bytes | None, int]]:
    """Key and offset of each handled message."""
    return [(key, int(at)) for _, at, key in (it.split() for it in path.read_bytes().splitlines())]


def test_the_example_does_what_it_says() -> None:
    told = subprocess.run(
        [sys.executable, str(REPOSITORY / "examples" / "patterns" / "retry.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr + told.stdout
    assert "booked 199, skipped 20 that were sent twice" in told.stdout
    assert "each account's payments in order: True" in told.stdout
