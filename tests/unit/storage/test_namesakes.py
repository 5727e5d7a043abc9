"""A log is gone, and another one gets its name: nothing that was said of the first holds for it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.model.ids import TopicPartition
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore
from tests.unit.storage.logs import NOW, TOPIC_ID, contents, fill

ORDERS = TopicPartition("orders", 0)
OTHER_ID = bytes(reversed(TOPIC_ID))
PLAIN = LogConfig()


def open_store(*directories: Path) -> LogStore:
    store = LogStore([str(each) for each in directories], node_id=1, cluster_id="c")
    store.open(lambda _: PLAIN)
    return store


def grow(store: LogStore) -> None:
    """A log whose checkpoints name high offsets."""
    log = store.create(*ORDERS, TOPIC_ID, PLAIN)
    fill(log, 50)
    log.sync()
    log.high_watermark = 50
    log.advance_start(40)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("leaving", [LogStore.delete, LogStore.set_aside])
def test_a_log_outlives_a_crash_whatever_checkpoints_say_of_its_namesake(
    tmp_path: Path, leaving: Callable[[LogStore, TopicPartition], None], restarted: bool
) -> None:
    store = open_store(tmp_path)
    grow(store)
    store.checkpoint_pass()
    if restarted:
        store.close(False)
        store = open_store(tmp_path)
    leaving(store, ORDERS)
    log = store.create(*ORDERS, OTHER_ID, PLAIN)
    fill(log, 3)
    expected = contents(log)
    store.close(False)
    store = open_store(tmp_path)
    log = store.logs[ORDERS]
    assert contents(log) == expected
    assert (log.start, log.end, log.recovery_point, log.high_watermark) == (0, 3, 0, 0)
    store.close(False)


def test_a_checkpoint_that_was_taken_before_the_deletion_does_not_come_after_it(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    grow(store)
    late = [*store.checkpoint_work(), *store.high_watermark_work()]
    store.delete(ORDERS)
    store.checkpoint_work()  # asked for, and never carried out
    log = store.create(*ORDERS, OTHER_ID, PLAIN)
    for _, write in late:
        write()
    fill(log, 3)
    store.close(False)
    store = open_store(tmp_path)
    log = store.logs[ORDERS]
    assert (log.start, log.end, log.recovery_point) == (0, 3, 0)
    store.close(False)


def test_a_log_that_moves_back_does_not_meet_its_own_past(tmp_path: Path) -> None:
    store = open_store(tmp_path / "one", tmp_path / "two")
    grow(store)
    store.checkpoint_pass()
    log = store.logs[ORDERS]
    here = store.directory_of(log)
    store.delete(ORDERS)
    there = next(each for each in store.directories if each is not here)
    log = store.create(*ORDERS, OTHER_ID, PLAIN, there.uuid)
    fill(log, 3)
    moved = store.begin_move(ORDERS, here).finish(NOW)
    expected = contents(moved)
    store.retire(log)
    store.close(False)
    store = open_store(tmp_path / "one", tmp_path / "two")
    assert contents(store.logs[ORDERS]) == expected
    assert store.logs[ORDERS].recovery_point == 0
    store.close(False)


@pytest.mark.parametrize("leaving", [LogStore.delete, LogStore.set_aside])
def test_a_log_that_could_not_be_renamed_is_not_written_over(
    tmp_path: Path,
    leaving: Callable[[LogStore, TopicPartition], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store(tmp_path)
    log = store.create(*ORDERS, TOPIC_ID, PLAIN)
    fill(log, 5)
    expected = contents(log)

    def fail(old: str, new: str) -> None:
        raise OSError(errno.ENOSPC, "no room for a longer name", new)

    with monkeypatch.context() as full:
        full.setattr(store.disk, "rename", fail)
        with pytest.raises(OSError, match="no room"):
            leaving(store, ORDERS)
    with pytest.raises(FileExistsError):
        store.create(*ORDERS, OTHER_ID, PLAIN)
    store.close(False)
    store = open_store(tmp_path)
    assert contents(store.logs[ORDERS]) == expected
    store.close(False)
