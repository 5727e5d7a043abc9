"""Logs move between directories while they are written."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.model.ids import TopicPartition
from penstock.platform.workers import InlineWorkers
from penstock.storage import moves
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.moves import carry_out
from penstock.storage.store import LogStore
from tests.unit.storage.logs import NOW, TOPIC_ID, batch, contents, fill, put

KEY = TopicPartition("orders", 0)
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=0)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "STEP_BYTES", 300)


def open_store(root: Path) -> LogStore:
    store = LogStore([str(root / "a"), str(root / "b")], node_id=1, cluster_id="c")
    store.open(lambda _: SMALL)
    return store


def filled(root: Path) -> tuple[LogStore, Log]:
    store = open_store(root)
    log = store.create(*KEY, TOPIC_ID, SMALL, store.directories[0].uuid)
    for number in range(40):
        put(log, batch(producer_id=3, producer_epoch=0, sequence=number), epoch=number // 15)
    log.high_watermark = 35
    return store, log


def now() -> int:
    return NOW


async def test_a_log_moves_and_nothing_of_it_changes(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    expected = contents(log)
    swaps: list[tuple[Log, Log]] = []
    move = store.begin_move(KEY, store.directories[1])
    assert move.lag == 40
    assert await carry_out(move, InlineWorkers(), now, lambda *each: swaps.append(each))
    moved = store.logs[KEY]
    assert swaps == [(log, moved)]
    assert moved.directory == str(tmp_path / "b" / "orders-0")
    assert contents(moved) == expected
    assert (moved.high_watermark, moved.epochs.entries) == (35, [(0, 0), (1, 15), (2, 30)])
    assert moved.producers.by_id[3].next_sequence == 40
    assert moved.recovery_point == 40
    fill(moved, 3)
    work = store.take_trash(store.clock.now() + 1)
    assert work is not None
    work()
    assert [each for each in os.listdir(tmp_path / "a") if "orders" in each] == []
    store.close()
    store = open_store(tmp_path)
    assert store.logs[KEY].end == 43
    store.close()


async def test_appends_during_the_move_arrive_too(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    move = store.begin_move(KEY, store.directories[1])

    def append_now_and_then() -> int:
        if log.end < 60:
            fill(log, 1)
        return NOW

    assert await carry_out(move, InlineWorkers(), append_now_and_then, lambda *_: None)
    assert store.logs[KEY].end == log.end > 40
    assert len(contents(store.logs[KEY])) == log.end
    store.close()


def test_a_truncation_during_the_move_starts_the_copy_over(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    move = store.begin_move(KEY, store.directories[1])
    while not move.step(NOW):
        pass
    log.truncate_to(20, NOW)
    fill(log, 30, timestamp=NOW + 777)
    expected = contents(log)
    assert contents(move.finish(NOW)) == expected
    store.close()


def test_records_deleted_during_the_move_are_not_copied(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    move = store.begin_move(KEY, store.directories[1])
    move.step(NOW)
    log.advance_start(33)
    moved = move.finish(NOW)
    assert (moved.start, moved.end) == (33, 40)
    store.close()


def test_a_restart_goes_on_with_the_copy(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    expected = contents(log)
    move = store.begin_move(KEY, store.directories[1])
    for _ in range(5):
        move.step(NOW)
    copied = move.copy.end
    store.close()
    store = open_store(tmp_path)
    move = store.moves[KEY]
    assert 0 < move.copy.end <= copied
    assert contents(move.finish(NOW)) == expected
    store.close()


@pytest.mark.parametrize("extra", [0, 2])
def test_of_two_logs_that_a_crash_left_the_longer_stays(tmp_path: Path, extra: int) -> None:
    store, _ = filled(tmp_path)
    move = store.begin_move(KEY, store.directories[1])
    moved = move.finish(NOW)  # the old log keeps its name until the new one is durable
    fill(moved, extra)
    expected = contents(moved)
    store.close(clean=False)
    store = open_store(tmp_path)
    assert contents(store.logs[KEY]) == expected
    assert len(list(tmp_path.glob("*/orders*-stray"))) == 1
    store.close()


def test_a_cancelled_move_leaves_nothing_behind(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    move = store.begin_move(KEY, store.directories[1])
    move.step(NOW)
    move.cancel()
    assert not store.moves
    work = store.take_trash(store.clock.now() + 1)
    assert work is not None
    work()
    assert not [each for each in os.listdir(tmp_path / "b") if "orders" in each]
    fill(log, 1)
    store.close()


def test_deleting_the_log_cancels_its_move(tmp_path: Path) -> None:
    store, _ = filled(tmp_path)
    move = store.begin_move(KEY, store.directories[1])
    store.delete(KEY)
    assert move.cancelled and not store.moves and not store.logs
    store.close()


def test_a_log_that_is_set_aside_is_not_moved_on(tmp_path: Path) -> None:
    store, _ = filled(tmp_path)
    store.begin_move(KEY, store.directories[1]).step(NOW)
    store.set_aside(KEY)
    assert not store.moves and not store.logs
    assert not list((tmp_path / "b").glob("*-future"))
    assert len(list((tmp_path / "a").glob("*-stray"))) == 1


async def test_a_target_that_fails_ends_the_move_and_not_the_log(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    move = store.begin_move(KEY, store.directories[1])
    move.copy.context.on_fault(move.copy, OSError(errno.EIO, "input/output error"))
    assert not store.directories[1].online and move.cancelled
    assert not await carry_out(move, InlineWorkers(), now, lambda *_: None)
    fill(log, 1)
    assert store.logs[KEY] is log
    store.close()


async def test_a_log_that_begins_within_a_batch_moves(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    for _ in range(3):
        put(log, batch(10))
    log.advance_start(55)
    log.high_watermark = log.end
    expected = contents(log)
    assert await carry_out(
        store.begin_move(KEY, store.directories[1]), InlineWorkers(), now, lambda *_: None
    )
    moved = store.logs[KEY]
    assert (moved.start, moved.end) == (55, 70)
    assert contents(moved) == expected


async def test_a_log_whose_last_offsets_are_lost_moves_nevertheless(tmp_path: Path) -> None:
    store, log = filled(tmp_path)
    expected = contents(log)
    log.skip_to(60, NOW)  # as after a power cut that left a later segment and not this one's end
    assert await carry_out(
        store.begin_move(KEY, store.directories[1]), InlineWorkers(), now, lambda *_: None
    )
    moved = store.logs[KEY]
    assert (contents(moved), moved.end) == (expected, 60)
    assert put(moved, batch()) == 60
    store.close(False)
    assert open_store(tmp_path).logs[KEY].end == 61


async def test_a_copy_that_cannot_be_synced_takes_its_directory_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, log = filled(tmp_path)
    expected = contents(log)
    move = store.begin_move(KEY, store.directories[1])

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "a broken disk")

    monkeypatch.setattr(store.disk, "sync_fd", fail)
    assert not await carry_out(move, InlineWorkers(), now, lambda *_: None)
    assert [each.online for each in store.directories] == [True, False]
    assert store.logs[KEY] is log and contents(log) == expected


class LaterWorkers(InlineWorkers):
    """Done, but whoever awaits it hears of it later."""

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        later = asyncio.get_running_loop().create_future()

        def finish() -> None:
            if not later.cancelled():
                later.set_result(work())

        later.get_loop().call_soon(finish)
        return later


async def test_a_stop_leaves_one_log_whenever_it_comes(tmp_path: Path) -> None:
    for steps in range(200):
        store, _ = filled(tmp_path / str(steps))
        move = store.begin_move(KEY, store.directories[1])
        moving = asyncio.ensure_future(carry_out(move, LaterWorkers(), now, lambda *_: None))
        for _ in range(steps):
            await asyncio.sleep(0)
        ended = moving.done()
        moving.cancel()
        await asyncio.wait([moving])
        store.close()
        logs = [each for each in ("a", "b") if (tmp_path / str(steps) / each / "orders-0").exists()]
        assert len(logs) == 1
        if ended:
            return
    raise AssertionError("the move never ended")
