"""One shard of the share coordinator: fencing, snapshots, and what time does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.coordination.delivery.effects import Held, State
from penstock.coordination.delivery.states import DONE
from penstock.coordination.share import batches, beginning, shard, updating
from penstock.coordination.share.settings import ShareSettings
from penstock.coordination.share.shard import Prune
from penstock.coordination.share.state import ShareKey, Summary
from penstock.model.errors import ErrorCode
from tests.unit.coordination.share.desk import (
    ACKNOWLEDGED,
    ARCHIVED,
    BILLS,
    KEY,
    NOON,
    ORDERS,
    OTHER,
    Desk,
    batch,
    image_of,
)

DELETED: Any = SimpleNamespace(topics=SimpleNamespace(deleted={ORDERS: None}))

OFTEN = ShareSettings(updates_per_snapshot=3, cold_ms=1_000, prune_ms=1_000_000)


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    assert desk.initialize(epoch=2, start=10) is ErrorCode.NONE
    return desk


# -- beginning and end ----------------------------------------------------------------------------


def test_a_key_that_was_begun_can_be_read_and_written(desk: Desk) -> None:
    assert desk.read(leader=1) == Held(2, 10)
    assert desk.write(batch(12, 14), start=11, complete=1, epoch=2, leader=1) is ErrorCode.NONE
    assert desk.read(leader=1) == Held(2, 11, (batch(12, 14),))
    assert desk.summary() == Summary(2, 1, 11, 1)


def test_a_key_that_was_never_begun_has_no_offset_and_takes_no_writes() -> None:
    desk = Desk()
    assert desk.summary() == Summary(0, 0, -1, -1)
    assert desk.read() is ErrorCode.INVALID_REQUEST
    assert desk.write(batch(0, 1)) is ErrorCode.INVALID_REQUEST
    assert desk.delete() is ErrorCode.NONE
    assert desk.log == []


def test_to_begin_anew_forgets_all_but_who_leads(desk: Desk) -> None:
    desk.read(leader=4)
    desk.write(batch(12, 14), epoch=2, leader=4)
    assert desk.initialize(epoch=3, start=-1) is ErrorCode.NONE
    assert desk.summary() == Summary(3, 4, -1, -1)
    assert desk.read(leader=4) == Held(3, -1)
    assert desk.read(leader=3) is ErrorCode.FENCED_LEADER_EPOCH


def test_what_is_deleted_is_gone_and_may_begin_again(desk: Desk) -> None:
    assert desk.delete() is ErrorCode.NONE
    assert desk.kinds[-1] == "tombstone"
    assert desk.read() is ErrorCode.INVALID_REQUEST
    assert desk.initialize(epoch=0, start=0) is ErrorCode.NONE
    assert desk.read() == Held(0, 0)


@pytest.mark.parametrize("key", [KEY._replace(partition=2), KEY._replace(topic_id=b"x" * 16)])
def test_partitions_that_the_cluster_does_not_have_are_refused(desk: Desk, key: ShareKey) -> None:
    assert desk.initialize(key) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert desk.summary(key) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert desk.delete(key) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_negative_partition_is_a_mistake(desk: Desk) -> None:
    key = KEY._replace(partition=-1)
    for told in (
        desk.initialize(key),
        desk.read(0, key),
        desk.write(key=key),
        desk.delete(key),
        desk.summary(key),
    ):
        assert told is ErrorCode.INVALID_REQUEST


def test_no_more_keys_are_begun_than_a_shard_may_hold(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginning, "KEYS_MAX", 1)
    assert desk.initialize(OTHER) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.initialize(epoch=2) is ErrorCode.NONE, "one that it holds may begin anew"


# -- fencing --------------------------------------------------------------------------------------


def test_a_new_leader_fences_those_before_it(desk: Desk) -> None:
    assert desk.read(leader=5) == Held(2, 10)
    assert desk.write(batch(10, 10), epoch=2, leader=4) is ErrorCode.FENCED_LEADER_EPOCH
    assert desk.read(leader=4) is ErrorCode.FENCED_LEADER_EPOCH
    assert desk.write(batch(10, 10), epoch=2, leader=5) is ErrorCode.NONE
    assert desk.kinds.count("ShareUpdateValue") == 2, "who leads is written down"


def test_reading_again_writes_nothing(desk: Desk) -> None:
    desk.read(leader=5)
    before = len(desk.log)
    desk.read(leader=5)
    assert len(desk.log) == before


def test_writes_to_an_older_state_are_fenced(desk: Desk) -> None:
    assert desk.write(batch(10, 10), epoch=1) is ErrorCode.FENCED_STATE_EPOCH
    assert desk.initialize(epoch=1) is ErrorCode.FENCED_STATE_EPOCH
    assert desk.write(batch(10, 10), epoch=-1) is ErrorCode.NONE, "-1 asks for no fencing"


def test_a_write_that_comes_late_does_not_move_the_start_back(desk: Desk) -> None:
    desk.write(batch(20, 20, ACKNOWLEDGED), start=15, complete=1, epoch=2)
    desk.write(batch(11, 16, ACKNOWLEDGED), start=11, complete=9, epoch=2)
    assert desk.read() == Held(2, 15, (batch(15, 16, ACKNOWLEDGED), batch(20, 20, ACKNOWLEDGED)))
    assert desk.summary() == Summary(2, 0, 15, 1)


# -- bad writes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        batch(5, 4),
        batch(-1, 4),
        batch(0, 1, count=-1),
        batch(0, 1, not_before=-5),
        batch(0, 1, State.ACQUIRED),
    ],
)
def test_batches_that_make_no_sense_are_refused(desk: Desk, wrong: Any) -> None:
    assert desk.write(batch(10, 10), wrong, epoch=2) is ErrorCode.INVALID_REQUEST
    assert desk.read() == Held(2, 10)


def test_an_absurd_start_is_refused(desk: Desk) -> None:
    assert desk.write(start=-2, epoch=2) is ErrorCode.INVALID_REQUEST
    assert desk.initialize(epoch=2, start=-2) is ErrorCode.INVALID_REQUEST


def test_batches_have_a_bound(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "BATCHES_MAX", 3)
    apart = [batch(at, at) for at in range(10, 20, 2)]
    assert desk.write(*apart, epoch=2) is ErrorCode.INVALID_REQUEST
    assert desk.write(*apart[:3], epoch=2) is ErrorCode.NONE
    assert desk.write(apart[3], epoch=2) is ErrorCode.INVALID_REQUEST
    assert desk.write(batch(10, 16, ACKNOWLEDGED), epoch=2) is ErrorCode.NONE, "fewer than before"


def test_what_is_done_with_behind_a_record_that_waits_has_no_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(updating, "BATCHES_MAX", 1_000)
    monkeypatch.setattr(batches, "MANY", 400)
    desk = Desk()
    desk.initialize()
    assert desk.write(batch(0, 0, not_before=NOON + 600_000), start=0) is ErrorCode.NONE
    ways = ((ACKNOWLEDGED, 1), (ACKNOWLEDGED, 2), (ARCHIVED, 3))
    for first in range(1, 2 * updating.BATCHES_MAX, 200):
        said = [batch(at, at, *ways[at % 3]) for at in range(first, first + 200)]
        assert desk.write(*said, start=0, complete=first + 199) is ErrorCode.NONE
    held = desk.read()
    assert isinstance(held, Held)
    assert len(held.batches) <= 600
    assert held.batches[0] == batch(0, 0, not_before=NOON + 600_000)
    assert all(it.state in DONE for it in held.batches[1:])
    assert Desk(log=desk.log).state() == desk.state(), "whoever loads it knows the same"


# -- snapshots ------------------------------------------------------------------------------------


def test_after_some_updates_the_whole_state_is_written() -> None:
    desk = Desk(OFTEN)
    desk.initialize()
    for at in range(8):
        desk.write(batch(2 * at, 2 * at), start=at)
    updates = ["ShareUpdateValue"] * 3
    assert desk.kinds == [
        "ShareSnapshotValue",
        *updates,
        "ShareSnapshotValue",
        *updates,
        "ShareSnapshotValue",
    ]
    assert Desk(log=desk.log[-1:]).state() == desk.state()


def test_old_snapshots_are_written_again_while_others_are_busy() -> None:
    desk = Desk(OFTEN)
    desk.initialize(KEY)
    desk.run(500)
    desk.initialize(OTHER)
    desk.run(600)
    assert desk.kinds[2:] == ["ShareSnapshotValue"]
    assert desk.shard.states[KEY].offset == 2
    desk.run(10_000)
    written = len(desk.log)
    assert written <= 5
    desk.run(100_000)
    assert len(desk.log) == written, "a quiet shard writes nothing"


def test_a_log_that_does_not_take_snapshots_is_asked_again() -> None:
    desk = Desk(OFTEN)
    desk.initialize()
    desk.full = True
    desk.run(1_500)
    desk.full = False
    desk.run(1_500)
    assert desk.shard.states[KEY].offset == 1


def test_the_log_is_cut_where_the_oldest_snapshot_stands() -> None:
    desk = Desk(OFTEN._replace(prune_ms=100, cold_ms=1_000_000))
    desk.initialize(KEY)
    desk.initialize(OTHER)
    desk.run(150)
    assert desk.errands == [], "the first record is needed"
    for at in range(5):
        desk.write(batch(at, at))
    desk.run(100)
    assert desk.errands == [Prune(1)]
    for at in range(5):
        desk.write(batch(at, at), key=OTHER)
    desk.run(1_000)
    assert desk.errands == [Prune(1), Prune(desk.shard.states[KEY].offset)]
    assert Desk(OFTEN, desk.cut(desk.errands[-1].offset)).state() == desk.state()


def test_a_log_that_becomes_long_is_cut_ahead_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "LONG", 40)
    desk = Desk(OFTEN._replace(prune_ms=1_000_000, cold_ms=1_000_000))
    desk.initialize(KEY)
    desk.initialize(OTHER)
    lengths = []
    for at in range(400):
        desk.write(batch(at, at), start=at)
        desk.run(1)
        start = desk.errands[-1].offset if desk.errands else 0
        lengths.append(desk.end - start)
    assert max(lengths) < 90, "twice as long as it may be, at the most"
    assert Desk(OFTEN, desk.cut(start)).state() == desk.state()
    assert desk.kinds.count("ShareSnapshotValue") < 130, "the quiet key is seldom written again"


def test_a_log_that_cannot_be_cut_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "LONG", 10)
    desk = Desk(OFTEN._replace(prune_ms=1_000_000, cold_ms=1_000_000))
    desk.initialize(KEY)
    desk.initialize(OTHER)
    for at in range(30):
        desk.write(batch(at, at), start=at)
    desk.full = True
    desk.run(100)
    assert desk.errands == []
    desk.full = False
    desk.run(2_000)
    assert desk.errands[-1].offset > 20


def test_a_log_without_living_keys_is_cut_at_its_end() -> None:
    desk = Desk(OFTEN._replace(prune_ms=100))
    desk.initialize()
    desk.delete()
    desk.run(150)
    assert desk.errands == [Prune(2)]


def test_updates_whose_snapshot_is_cut_off_are_skipped() -> None:
    desk = Desk()
    desk.initialize()
    desk.write(batch(0, 0))
    desk.delete()
    assert Desk(log=desk.cut(1)).state() == {}


# -- deleted topics -------------------------------------------------------------------------------


def test_states_of_deleted_topics_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "RECORDS_PER_STEP", 2)
    desk = Desk()
    for number in range(5):
        desk.initialize(ShareKey(f"g{number}", ORDERS, 0))
    desk.initialize(OTHER)
    desk.tell(image_of(BILLS), DELETED)
    assert list(desk.shard.states) == [OTHER]
    assert desk.kinds.count("tombstone") == 5


def test_whoever_loads_a_log_forgets_what_was_deleted_meanwhile() -> None:
    desk = Desk()
    desk.initialize(ShareKey("g", b"g" * 16, 0))
    desk.tell(image_of(ORDERS, b"g" * 16))
    desk.initialize(ShareKey("g", b"g" * 16, 0))
    desk.initialize()
    later = Desk(log=desk.log)
    assert list(later.shard.states) == [KEY]


def test_tombstones_that_the_log_does_not_take_come_again(desk: Desk) -> None:
    desk.full = True
    desk.tell(image_of(BILLS), DELETED)
    assert KEY in desk.shard.states
    desk.full = False
    desk.run(2_000)
    assert KEY not in desk.shard.states
