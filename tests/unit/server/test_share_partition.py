"""The driver of a share group's deliveries: what it writes down, when, and what it does if it
cannot. The share coordinator and the log are the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from penstock.coordination.delivery.effects import (
    AckBatch,
    DeadLetter,
    Held,
    Span,
    State,
    StateBatch,
)
from penstock.coordination.delivery.settings import DeliverySettings
from penstock.coordination.share.state import Summary
from penstock.model.errors import ErrorCode
from penstock.platform.chance import SystemChance
from penstock.platform.clock import SystemClock
from penstock.server import share_loading
from penstock.server.share_answers import Acknowledgements
from penstock.server.share_partition import SharePartition
from penstock.server.share_persister import ShareKey
from penstock.server.share_settings import ShareSettings

KEY = ShareKey("g", b"t" * 16, 0)
ACCEPT, RELEASE, REJECT = 1, 2, 3


class Coordinator:
    """Answers when the test says so, and remembers what it was told."""

    def __init__(self, *reads: Held | ErrorCode) -> None:
        self.reads = list(reads)
        self.writes: list[tuple[int, tuple[StateBatch, ...]]] = []
        self.errors: list[ErrorCode] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.letters: list[DeadLetter] = []
        self.state_epoch = 5
        self.graves: list[bool] = []

    async def read(self, key: ShareKey, leader_epoch: int) -> Held | ErrorCode:
        assert (key, leader_epoch) == (KEY, 3)
        await asyncio.sleep(0)
        return self.reads.pop(0) if len(self.reads) > 1 else self.reads[0]

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete: int,
        batches: tuple[StateBatch, ...],
    ) -> ErrorCode:
        assert (key, state_epoch, leader_epoch) == (KEY, 5, 3)
        self.writes.append((start, tuple(batches)))
        await self.gate.wait()
        return self.errors.pop(0) if self.errors else ErrorCode.NONE

    async def summary(self, key: ShareKey) -> Summary:
        assert key == KEY
        return Summary(self.state_epoch, 3, 0, 0)

    async def bury(self, group_id: str, source: object, letter: DeadLetter) -> bool:
        assert (group_id, source) == ("g", source)
        self.letters.append(letter)
        await asyncio.sleep(0)
        return self.graves.pop(0) if self.graves else True


class Scene:
    """A driver, and a member that takes ten records and speaks of them."""

    def __init__(self, coordinator: Coordinator, **settings: Any) -> None:
        self.coordinator = coordinator
        log = SimpleNamespace(start=0)
        self.partition = SimpleNamespace(
            leader_epoch=3, log=log, high_watermark=10, leader_start=0, index=0
        )
        coordinators = SimpleNamespace(persister=coordinator, dead_letters=coordinator)
        broker = SimpleNamespace(
            clock=SystemClock(),
            chance=SystemChance(),
            loop=asyncio.get_running_loop(),
            coordinators=coordinators,
        )
        self.ended: list[SharePartition] = []
        shared = ShareSettings(DeliverySettings(**settings), False, "latest")
        self.driver = SharePartition(
            cast(Any, broker), KEY, cast(Any, self.partition), lambda _: shared, self.ended.append
        )
        self.told: list[int] = []

    def progress(self, size: int) -> None:
        self.told.append(size)

    async def loaded(self) -> None:
        await until(lambda: self.driver.delivery is not None)

    def take(self, first: int = 0, last: int = 9) -> None:
        """Give records that were never read to the member."""
        assert self.driver.next_offset() == first
        span = Span(first, last)
        got = self.driver.acquire("anna", first, [span], 500, 500, False, (), ())
        assert [(each.first, each.last) for each in got] == [(first, last)]

    def say(self, first: int, last: int, word: int = ACCEPT) -> Acknowledgements:
        answers = Acknowledgements()
        self.driver.acknowledge("anna", [AckBatch(first, last, (word,))], answers)
        return answers


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.001)


def error_of(answers: Acknowledgements) -> ErrorCode:
    return answers.errors[KEY.topic_id, KEY.partition]


async def scene(**settings: Any) -> Scene:
    made = Scene(Coordinator(Held(5, 0)), **settings)
    await made.loaded()
    return made


# -- loading ----------------------------------------------------------------------------------


async def test_a_coordinator_that_is_away_is_waited_for(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(share_loading, "RELOAD_MS", 1)
    away = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
    it = Scene(Coordinator(*away, Held(5, 7)))
    it.driver.park(it)
    assert it.driver.next_offset() is None
    await it.loaded()
    assert it.driver.next_offset() == 7
    assert len(it.told) == 1  # who waits looks again


async def test_a_leader_that_another_has_replaced_says_so_at_once() -> None:
    it = Scene(Coordinator(ErrorCode.FENCED_LEADER_EPOCH))
    it.driver.park(it)
    await until(lambda: it.ended == [it.driver])
    assert it.driver.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert it.told == [0]


async def test_where_a_group_begins_is_written_down_before_anything_is_delivered() -> None:
    it = Scene(Coordinator(Held(5, -1)))
    it.coordinator.gate.clear()
    await until(lambda: it.coordinator.writes == [(10, ())])
    assert it.driver.next_offset() is None
    it.coordinator.gate.set()
    await it.loaded()
    assert it.driver.next_offset() == 10


async def test_nothing_can_be_said_about_records_before_they_are_loaded() -> None:
    it = Scene(Coordinator(Held(5, 0)))
    assert error_of(it.say(0, 0)) is ErrorCode.INVALID_RECORD_STATE
    await it.loaded()


# -- writing ----------------------------------------------------------------------------------


async def test_an_acknowledgement_counts_when_it_is_written_down() -> None:
    it = await scene()
    it.take()
    it.coordinator.gate.clear()
    answers = it.say(0, 9)
    await until(lambda: len(it.coordinator.writes) == 1)
    assert not answers.settled
    it.coordinator.gate.set()
    await answers.wait()
    assert error_of(answers) is ErrorCode.NONE
    assert it.driver.delivery is not None
    assert it.driver.delivery.start == 10


async def test_what_comes_up_during_a_write_goes_together_in_the_next() -> None:
    it = await scene()
    it.take()
    it.coordinator.gate.clear()
    said = [it.say(offset, offset) for offset in (4, 2, 6)]
    await until(lambda: len(it.coordinator.writes) == 1)
    it.coordinator.gate.set()
    for answers in said:
        await answers.wait()
        assert error_of(answers) is ErrorCode.NONE
    batches = [{each.first for each in batches} for _, batches in it.coordinator.writes]
    assert batches in ([{4}, {2, 6}], [{2, 4, 6}])


async def test_what_could_not_be_written_is_the_members_still() -> None:
    it = await scene()
    it.take()
    it.coordinator.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    answers = it.say(0, 9)
    await answers.wait()
    assert error_of(answers) is not ErrorCode.NONE
    again = it.say(0, 9)
    await again.wait()
    assert error_of(again) is ErrorCode.NONE


async def test_a_fenced_write_ends_the_driver_and_tells_all_who_wait() -> None:
    it = await scene()
    it.take()
    it.driver.park(it)
    it.coordinator.errors = [ErrorCode.FENCED_STATE_EPOCH]
    answers = it.say(0, 9)
    await answers.wait()
    assert error_of(answers) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert it.ended == [it.driver]
    assert it.told[-1] == 0


async def test_who_waits_for_a_write_hears_that_the_lead_is_lost() -> None:
    it = await scene()
    it.take()
    it.coordinator.gate.clear()
    answers = it.say(0, 9)
    await until(lambda: len(it.coordinator.writes) == 1)
    it.driver.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await answers.wait()
    assert error_of(answers) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    it.driver.end(ErrorCode.UNKNOWN_SERVER_ERROR)  # it ends once
    assert it.driver.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(it.ended) == 1


# -- time, and the log below ------------------------------------------------------------------


async def test_locks_end_by_themselves_and_wake_who_waits() -> None:
    it = await scene(lock_ms=30)
    it.take()
    it.driver.park(it)
    await until(lambda: bool(it.told))
    assert it.driver.next_offset() == 0


async def test_a_session_that_ends_gives_back_what_was_held() -> None:
    it = await scene()
    it.take()
    it.driver.park(it)
    it.driver.release("anna", clean=True)
    await until(lambda: bool(it.told))
    assert it.driver.next_offset() == 0


async def test_what_was_deleted_from_the_log_is_passed_over() -> None:
    it = await scene()
    it.take()
    it.partition.log.start = 20
    assert it.driver.next_offset() == 20


# -- the dead ---------------------------------------------------------------------------------


async def test_what_is_given_up_is_buried_and_only_then_archived() -> None:
    it = await scene(buries=True)
    it.take()
    await it.say(0, 0, REJECT).wait()
    await until(lambda: len(it.coordinator.writes) == 2)
    assert [(each.first, each.last) for each in it.coordinator.letters] == [(0, 0)]
    states = [batch.state for _, batches in it.coordinator.writes for batch in batches]
    assert State.ARCHIVING in states


async def test_a_group_is_forgotten_when_its_last_letter_is_written() -> None:
    it = await scene(buries=True)
    it.take(0, 0)
    it.coordinator.gate.clear()
    answers = it.say(0, 0, REJECT)
    it.driver.retire()
    assert it.ended == []
    it.coordinator.gate.set()
    await answers.wait()
    await until(lambda: it.ended == [it.driver])
    assert len(it.coordinator.letters) == 1


async def test_letters_of_a_group_that_was_deleted_do_not_wait_for_ever() -> None:
    it = await scene(buries=True)
    it.take(0, 0)
    it.coordinator.graves = [False, False, False]
    await it.say(0, 0, REJECT).wait()
    await until(lambda: len(it.coordinator.letters) == 1)
    it.coordinator.state_epoch = 0  # there is no such state
    await asyncio.sleep(0.01)
    assert it.ended == [], "as long as there are members, it is for them to find out"
    it.driver.retire()
    await until(lambda: it.ended == [it.driver])
    assert len(it.coordinator.letters) == 2


async def test_our_own_fault_ends_one_driver_and_not_the_node() -> None:
    it = Scene(Coordinator())  # its answers run out
    await until(lambda: it.ended == [it.driver])
    assert it.driver.error is ErrorCode.UNKNOWN_SERVER_ERROR
