"""What would look handled and is not: handlers nobody awaits, stores that answer later, foreign
records, partitions that went while they were read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from penstock.patterns import AsyncWorker, Backoff, Message, Once, Worker
from penstock.patterns.desk import Failed, Rules
from penstock.patterns.engine import Engine
from penstock.patterns.message import Message as Plain
from penstock.patterns.notes import Notes
from penstock.patterns.once import Guard
from penstock.patterns.settings import Settings
from penstock.patterns.topics import Plan, Step
from tests.unit.patterns.stage import TOPIC, Stage

CLIENT = {"bootstrap.servers": "localhost:1", "group.id": "g"}
ORDER = Message("orders", 3, 41, b"k", b"v")


async def later(message: Message) -> None:
    raise AssertionError(f"nobody awaits this, {message} included")


class Remembers:
    """A store whose methods give something to await, without being coroutine functions."""

    def __init__(self) -> None:
        self.marked: set[str] = set()

    def seen(self, identity: str) -> Awaitable[bool]:
        return self._seen(identity)

    def mark(self, identity: str) -> Awaitable[None]:
        return self._mark(identity)

    async def _seen(self, identity: str) -> bool:
        return identity in self.marked

    async def _mark(self, identity: str) -> None:
        self.marked.add(identity)


class RemembersLater:
    async def seen(self, identity: str) -> bool:
        return False

    async def mark(self, identity: str) -> None: ...


def test_a_coroutine_is_no_handler_of_a_worker_with_threads() -> None:
    with pytest.raises(ValueError, match="AsyncWorker"):
        Worker(CLIENT, "orders", later)


def test_a_handler_that_gives_something_to_await_has_not_handled_anything() -> None:
    with pytest.raises(TypeError, match="AsyncWorker"):
        Guard(None, "g").call(lambda message: later(message), ORDER)


def test_a_store_of_coroutines_is_no_store_of_a_worker_with_threads() -> None:
    with pytest.raises(ValueError, match="AsyncWorker"):
        Worker(CLIENT, "orders", print, once=Once(RemembersLater()))
    with pytest.raises(TypeError, match="AsyncWorker"):
        Guard(Once(Remembers()), "g").call(print, ORDER)


def test_a_store_may_answer_with_whatever_can_be_awaited() -> None:
    store = Remembers()
    guard = Guard(Once(store), "g")
    called: list[Message] = []

    async def handle(message: Message) -> None:
        called.append(message)

    async def twice() -> list[str]:
        return [await guard.call_async(handle, ORDER) for _ in range(2)]

    assert asyncio.run(twice()) == [Guard.HANDLED, Guard.SKIPPED]
    assert len(called) == 1
    assert len(store.marked) == 1
    assert AsyncWorker(CLIENT, "orders", handle, once=Once(store)).counts.handled == 0


@pytest.mark.parametrize("topic", ["retry.g.orders", "somebody.elses"])
def test_what_others_wrote_to_a_retry_topic_can_wait_too(topic: str) -> None:
    plan = Plan(["orders"], {"orders": [Step("retry.g.orders", None)]})
    assert plan.step(topic, 60.0) == Step("retry.g.orders", None)


def test_a_fault_of_our_own_ends_the_worker_and_not_a_thread() -> None:
    settings = Settings(CLIENT, ["orders"], Backoff.of(60), keep_order=False)
    engine = Engine(settings, lambda job: None)

    class Broken:
        def send(self, *_: object) -> None:
            raise KeyError("our own")

    engine._post = cast(Any, Broken())
    engine._desk.assign(("orders", 0), Notes())
    engine._desk.take(("orders", 0), 0, Plain("orders", 0, 0), 0.0)
    (job,) = engine._desk.start(0.0)
    engine.ended(job, Failed("no"))
    assert isinstance(engine._problem, KeyError)
    assert engine._stopping


def test_what_waits_in_a_partition_that_went_is_forgotten() -> None:
    it = Stage(Rules(backoff=Backoff.of(3600)), [[b"a", b"b", b"c"]])
    it.assign()
    it.fetch()
    for job in list(it.running):
        it.end(job, Failed("no"))
    it.lose((TOPIC, 0))
    assert it.desk.next_due() is None
    it.assign()
    it.fetch()
    it.end(it.running[0], Failed("no"))
    assert it.desk.next_due() == 3600


class Went:
    """A client that takes a partition away between two reads, and perhaps gives it back."""

    def __init__(self, *told: Any) -> None:
        self.engine = Engine(Settings(CLIENT, ["orders"]), lambda job: None)
        self.engine._consumer = cast(Any, self)
        self._told = list(told)

    def poll(self, _: float) -> Any:
        told = self._told.pop(0) if self._told else None
        if not isinstance(told, TopicPartition):
            return told
        self.engine._on_revoke(cast(Any, self), [told])
        return self.poll(0)

    def resume(self, _: object) -> None: ...


class Record:
    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self._place = topic, partition, offset

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]


@pytest.mark.parametrize("before", [1, 3])
@pytest.mark.parametrize("after", [[], [("orders", 1, 9)], [("orders", 0, 5), ("orders", 1, 9)]])
def test_records_whose_partition_went_while_others_were_read_are_not_begun_with(
    before: int, after: list[tuple[str, int, int]]
) -> None:
    stale = [Record("orders", 0, 7 + number) for number in range(before)]
    client = Went(*stale, TopicPartition("orders", 0), *(Record(*each) for each in after))
    found = client.engine._poll()
    assert [(it.topic(), it.partition(), it.offset()) for it in found] == after


def test_jitter_does_not_send_a_short_wait_to_the_topic_of_a_long_one() -> None:
    rules = Rules(backoff=Backoff.of(10, 60, jitter=0.5), hold_max=10, keep_order=False)
    desk = Stage(rules, [[None]])
    desk.assign()
    desk.fetch()
    desk.desk.finish(desk.running[0], Failed("no"), 0.0, chance=1.0)
    assert desk.desk.errands() == []
    assert desk.desk.next_due() == 15
