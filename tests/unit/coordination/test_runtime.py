"""The runtime: decide, append, replay, and answer when it is committed; lead, lose and load."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.coordination import runtime as module
from penstock.coordination.effects import Effects, Moment, Ticket
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated.group_records import GroupMetadataKey, GroupMetadataValue
from penstock.protocol.generated.heartbeat import HeartbeatResponse
from penstock.replica.partition import Appended, Refused
from penstock.storage.store import LogStore
from tests.unit.coordination.driving import TOPIC, Drive, Numbers, look, put


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    made.open()
    yield made
    made.close()


def error_of(response: Any) -> ErrorCode:
    assert isinstance(response, HeartbeatResponse), response
    return ErrorCode(response.error_code)


async def test_what_is_decided_is_appended_replayed_and_answered(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()
    assert error_of(drive.call(put("a", 1))) == ErrorCode.NONE
    assert drive.shard.by_name == {"a": 1}
    assert drive.log.end == 1


async def test_a_reply_waits_until_its_records_are_committed(store: LogStore) -> None:
    drive = Drive(store, flush_messages=1)
    drive.lead()
    waiting = drive.call(put("a", 1))
    assert asyncio.isfuture(waiting) and not waiting.done()
    assert drive.shard.by_name == {"a": 1}, "the next step sees it"
    await drive.syncs.end()
    assert error_of(await waiting) == ErrorCode.NONE


async def test_not_even_a_read_tells_of_what_is_not_committed(store: LogStore) -> None:
    drive = Drive(store, flush_messages=1)
    drive.lead()
    drive.call(put("a", 1))
    seen: list[dict[str, int]] = []
    reading = drive.call(look(seen))
    assert seen == [{"a": 1}]
    assert asyncio.isfuture(reading) and not reading.done()
    await drive.syncs.end()
    assert error_of(await reading) == ErrorCode.NONE
    assert error_of(drive.call(look(seen))) == ErrorCode.NONE, "now at once"


async def test_a_shard_is_settled_when_all_that_it_knows_is_committed(store: LogStore) -> None:
    drive = Drive(store, flush_messages=1)
    assert drive.runtime.settled_shard("a") is None, "nobody leads it"
    drive.lead()
    assert drive.runtime.settled_shard("a") is drive.shard
    drive.call(put("a", 1))
    assert drive.runtime.settled_shard("a") is None, "it knows what a new leader might not"
    await drive.syncs.end()
    assert drive.runtime.settled_shard("a") is drive.shard
    drive.runtime.lose(0)
    assert drive.runtime.settled_shard("a") is None


async def test_a_shard_that_is_being_loaded_is_not_settled(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()
    drive.call(put("a", 1))
    drive.runtime.lose(0)
    drive.lead()
    assert drive.runtime.settled_shard("a") is None
    await drive.loaded()
    assert drive.runtime.settled_shard("a") is drive.shard


async def test_errands_are_run_when_their_records_are_committed(store: LogStore) -> None:
    drive = Drive(store, flush_messages=1)
    drive.lead()

    def step(shard: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
        put("a", 1)(shard, at, out, ticket)
        out.errand("fetch milk")

    drive.call(step)
    assert drive.errands == []
    await drive.syncs.end()
    assert drive.errands == ["fetch milk"]


async def test_a_shard_that_was_lost_meanwhile_sends_no_errands(store: LogStore) -> None:
    drive = Drive(store, flush_messages=1)
    drive.lead()

    def step(shard: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
        put("a", 1)(shard, at, out, ticket)
        out.errand("fetch milk")

    drive.call(step)
    drive.runtime.lose(0)
    await drive.syncs.end()
    assert drive.errands == []


async def test_a_record_that_the_log_refuses_changes_nothing_and_is_undone(
    store: LogStore,
) -> None:
    drive = Drive(store, message_max_bytes=1000)
    drive.lead()
    undone: list[ErrorCode] = []
    other: list[Any] = []

    def wait(_: Numbers, __: Moment, ___: Effects, ticket: Ticket) -> None:
        other.append(ticket)

    waiting = drive.call(wait)

    def step(shard: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
        put("a", 1, filler=2000)(shard, at, out, ticket)
        out.timer("mine", Millis(at.mono))

        def undo(error: ErrorCode, amends: Effects) -> None:
            undone.append(error)
            amends.reply(other[0], HeartbeatResponse(error_code=error))

        out.undo = undo

    assert error_of(drive.call(step)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert undone == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert error_of(await waiting) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (drive.shard.by_name, drive.log.end) == ({}, 0)
    await asyncio.sleep(0.01)
    assert drive.shard.fired == [], "a refused step sets no timers"
    assert error_of(drive.call(put("a", 2))) == ErrorCode.NONE


async def _timer_fires(drive: Drive, after_ms: int) -> None:
    drive.clock.time += after_ms
    # Time stands still but for the test: the loop's own timer is told to look.
    drive.runtime._timers._wake()
    await asyncio.sleep(0)


async def test_a_timer_comes_again_if_the_log_does_not_take_what_it_decides(
    store: LogStore,
) -> None:
    drive = Drive(store)
    drive.lead()
    drive.call(_with_timer(60_000))
    drive.shard.on_time = lambda at, out: out.record(
        GroupMetadataKey(group="a"), GroupMetadataValue(generation=7), 3
    )
    drive.partition.under_min = True
    await _timer_fires(drive, 60_000)
    assert (drive.shard.fired, drive.shard.by_name) == (["mine"], {})
    drive.partition.under_min = False
    await _timer_fires(drive, module.TIMER_RETRY_MS)
    assert (drive.shard.fired, drive.shard.by_name) == (["mine", "mine"], {"a": 7})
    await _timer_fires(drive, 60_000)
    assert len(drive.shard.fired) == 2, "it was taken: that was that"


async def test_a_timer_comes_again_if_its_step_fails(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()
    drive.call(_with_timer(60_000))

    def fail(at: Moment, out: Effects) -> None:
        raise ValueError("not today")

    drive.shard.on_time = fail
    await _timer_fires(drive, 60_000)
    drive.shard.on_time = None
    await _timer_fires(drive, module.TIMER_RETRY_MS)
    assert drive.shard.fired == ["mine", "mine"]


def _with_timer(span_ms: int) -> Any:
    def step(_: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
        out.timer("mine", Millis(at.mono + span_ms))
        out.reply(ticket, HeartbeatResponse())

    return step


async def test_a_record_that_cannot_be_written_at_all_is_refused_and_undone(
    store: LogStore,
) -> None:
    drive = Drive(store)
    drive.lead()
    undone: list[ErrorCode] = []

    def step(_: Numbers, __: Moment, out: Effects, ticket: Ticket) -> None:
        value = GroupMetadataValue(protocol_type="x" * 40_000)  # longer than a string can be
        out.record(GroupMetadataKey(group="a"), value, 3)
        out.reply(ticket, HeartbeatResponse())
        out.undo = lambda error, _: undone.append(error)

    assert error_of(drive.call(step)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert undone == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert error_of(drive.call(put("a", 2))) == ErrorCode.NONE


async def test_a_step_that_fails_is_refused_and_the_shard_goes_on(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()

    def step(_: Numbers, __: Moment, out: Effects, ticket: Ticket) -> None:
        out.reply(ticket, HeartbeatResponse())
        raise ValueError("our own fault")

    assert error_of(drive.call(step)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert error_of(drive.call(put("a", 1))) == ErrorCode.NONE


async def test_a_shard_that_cannot_replay_its_own_records_is_loaded_again(
    store: LogStore,
) -> None:
    drive = Drive(store)
    drive.lead()
    drive.call(put("a", 1))
    first = drive.shard
    first.unbearable = 2
    assert error_of(drive.call(put("a", 2))) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await drive.loaded()
    assert drive.shard is not first
    assert drive.shard.by_name == {"a": 2}
    assert error_of(drive.call(put("a", 3))) == ErrorCode.NONE


async def test_who_does_not_lead_does_not_coordinate(store: LogStore) -> None:
    drive = Drive(store)
    assert error_of(drive.call(put("a", 1))) == ErrorCode.NOT_COORDINATOR
    drive.lead()
    drive.runtime.lose(0)
    assert error_of(drive.call(put("a", 1))) == ErrorCode.NOT_COORDINATOR
    drive.runtime.partitions = 0
    assert error_of(drive.call(put("a", 1))) == ErrorCode.NOT_COORDINATOR


async def test_who_waits_when_the_lead_is_lost_is_sent_away(store: LogStore) -> None:
    drive = Drive(store, flush_messages=1)
    drive.lead()
    committing = drive.call(put("a", 1))
    parked = drive.call(lambda shard, at, out, ticket: None)
    drive.runtime.lose(0)
    assert error_of(await committing) == ErrorCode.NOT_COORDINATOR
    assert error_of(await parked) == ErrorCode.NOT_COORDINATOR
    await drive.syncs.end()
    assert drive.runtime.shards() == []


async def test_stopping_sends_everyone_away(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()
    parked = drive.call(lambda shard, at, out, ticket: None)
    drive.runtime.close()
    assert error_of(await parked) == ErrorCode.NOT_COORDINATOR


async def test_leading_in_the_same_epoch_again_changes_nothing(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()
    drive.call(put("a", 1))
    drive.lead()
    assert len(drive.shards) == 1


async def test_leading_in_a_new_epoch_loads_anew(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()
    drive.call(put("a", 1))
    drive.partition.lead(1, (1,), (1,))
    drive.lead()
    assert error_of(drive.call(put("a", 2))) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await drive.loaded()
    assert (len(drive.shards), drive.shard.by_name) == (2, {"a": 1})
    assert drive.shard.loaded == 1


async def test_timers_reach_the_shard_and_end_with_it(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()

    def step(_: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
        for key in ("now", "never", "later"):
            out.timer(key, at.mono)
        out.cancel("never")
        out.timer("later", Millis(at.mono + 5))
        out.reply(ticket, HeartbeatResponse())

    drive.call(step)
    await asyncio.sleep(0.02)
    assert drive.shard.fired == ["now"]
    drive.runtime.lose(0)
    drive.clock.time += 10
    await asyncio.sleep(0.02)
    assert drive.shard.fired == ["now"]


async def test_what_is_due_in_many_shards_at_once_is_dealt_with_in_turns(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.coordination.timers.DUE_PER_TURN", 1)
    drive = Drive(store)
    drive.lead()
    for index in range(1, 5):
        drive.runtime.lead(drive.another(store, index))
    for index in range(5):
        drive.call_shard(index, lambda shard, at, out, ticket: out.timer("sweep", at.mono))
    turns: set[int] = set()
    while len(turns) < 6:
        turns.add(sum(len(it.fired) for it in drive.shards))
        await asyncio.sleep(0)
    assert turns == {0, 1, 2, 3, 4, 5}


async def test_shards_are_told_of_metadata_when_they_are_loaded_and_when_it_changes(
    store: LogStore,
) -> None:
    drive = Drive(store)
    image = SimpleNamespace(
        topics=SimpleNamespace(by_name={TOPIC: SimpleNamespace(partitions={0: None, 1: None})})
    )
    drive.runtime.on_image(image, None)
    assert drive.runtime.partitions == 2
    drive.lead()
    drive.runtime.on_image(image, "delta")
    assert drive.shard.images == [image, image]


async def test_requests_that_wait_are_bounded(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TICKETS_MAX", 2)
    drive = Drive(store)
    drive.lead()
    parked = [drive.call(lambda shard, at, out, ticket: None) for _ in range(3)]
    assert error_of(parked[2]) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    parked[0].cancel()
    await asyncio.sleep(0)
    assert asyncio.isfuture(drive.call(lambda shard, at, out, ticket: None)), "one has left"


async def test_many_shards_share_the_bound_and_a_busy_one_may_use_it_up(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of thousands joins in one shard: the shards that are idle leave it their places."""
    monkeypatch.setattr(module, "TICKETS_MAX", 4)
    drive = Drive(store)
    drive.lead()
    for index in range(1, 4):
        drive.runtime.lead(drive.another(store, index))
    parked = [drive.call_shard(0, lambda shard, at, out, ticket: None) for _ in range(3)]
    assert all(asyncio.isfuture(it) for it in parked)
    assert asyncio.isfuture(drive.call_shard(1, lambda shard, at, out, ticket: None))
    refused = drive.call_shard(2, lambda shard, at, out, ticket: None)
    assert error_of(refused) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    drive.runtime.lose(0)
    await asyncio.sleep(0)
    assert asyncio.isfuture(drive.call_shard(2, lambda shard, at, out, ticket: None))


async def test_who_would_wait_in_a_shard_that_its_own_step_brought_down_is_told(
    store: LogStore,
) -> None:
    drive = Drive(store)
    drive.lead()
    drive.shard.unbearable = 2

    def step(_: Numbers, __: Moment, out: Effects, ___: Ticket) -> None:
        out.record(GroupMetadataKey(group="a"), GroupMetadataValue(generation=2), 3)

    assert error_of(drive.call(step)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_the_end_of_a_transaction_reaches_the_shard_if_the_log_takes_it(
    store: LogStore,
) -> None:
    drive = Drive(store)
    ended = (7, 0, True)
    assert drive.runtime.end_transaction(0, lambda: None, ended) == Refused(
        ErrorCode.NOT_COORDINATOR
    )
    drive.lead()
    refused = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert drive.runtime.end_transaction(0, lambda: refused, ended) is refused
    assert drive.shard.ended == []
    taken = Appended(0, 1, -1, 0)
    assert drive.runtime.end_transaction(0, lambda: taken, ended) is taken
    assert drive.shard.ended == [ended]
