"""A sync among others: other syncs of the same log, and whatever changes the log meanwhile."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.platform.disk import Disk
from penstock.storage.log import Log
from tests.unit.storage.logs import NOW, batch, fill, open_log, put


class Hooked(Disk):
    """Does something once, when a name passes that contains a word."""

    def __init__(self) -> None:
        super().__init__()
        self.word = ""
        self.hook: Callable[[], None] = lambda: None
        self.synced: list[str] = []

    def on(self, word: str, hook: Callable[[], None]) -> None:
        self.word, self.hook = word, hook

    def _pass(self, path: str) -> None:
        if self.word and self.word in os.path.basename(path):
            self.word = ""
            self.hook()

    def sync_path(self, path: str) -> None:
        self._pass(path)
        super().sync_path(path)

    def sync_fd(self, fd: int) -> None:
        self.synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self._pass(old)


@pytest.fixture
def disk() -> Hooked:
    return Hooked()


@pytest.fixture
def log(tmp_path: Path, disk: Hooked) -> Log:
    return open_log(tmp_path / "orders-0", disk=disk)


def test_of_two_syncs_at_once_none_ends_before_the_names_are_durable(tmp_path: Path) -> None:
    gate, entered = threading.Event(), threading.Event()

    class Slow(Disk):
        def sync_directory(self, path: str) -> None:
            entered.set()
            gate.wait(10)

    log = open_log(tmp_path / "orders-0", disk=Slow(), clean=False)
    put(log, batch(), epoch=-1)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(log.sync)
        assert entered.wait(10)
        second = threads.submit(log.sync)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        assert log.recovery_point == 0
        gate.set()
        assert (first.result(10), second.result(10)) == (1, 1)


def test_after_a_failed_sync_no_other_succeeds(tmp_path: Path) -> None:
    class FailsOnce(Disk):
        """Linux tells of a failed write once, and of nothing afterwards."""

        fails = True

        def sync_fd(self, fd: int) -> None:
            if self.fails:
                self.fails = False
                raise OSError(errno.EIO, "pages were dropped")

    log = open_log(tmp_path / "orders-0", disk=FailsOnce())
    fill(log, 2)
    for _ in range(2):
        with pytest.raises(OSError, match="pages were dropped"):
            log.sync()
    assert log.recovery_point == 0


def test_a_snapshot_may_go_while_it_is_about_to_be_synced(log: Log, disk: Hooked) -> None:
    put(log, batch(producer_id=1, producer_epoch=0, sequence=0))
    log.roll(NOW)
    fill(log, 2)
    disk.on("1.snapshot", lambda: log.drop_segments(2, NOW))
    log.sync()
    assert disk.word == ""


@pytest.mark.parametrize("moment", [".log", ".index", ".timeindex"])
def test_a_segment_may_be_cut_off_while_it_is_synced(log: Log, disk: Hooked, moment: str) -> None:
    fill(log, 2)
    log.roll(NOW)
    fill(log, 2)
    log.roll(NOW)
    log.segments[1].file.release()  # so that the sync opens it by its name
    disk.on(f"{2:020d}{moment}", lambda: sync_elsewhere(log))
    log.truncate_to(1, NOW)
    assert disk.word == ""
    assert log.recovery_point <= log.end == 1


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_sync_that_begins_during_a_truncation_vouches_for_nothing_that_is_cut(
    log: Log, disk: Hooked, offset: int
) -> None:
    fill(log, 2)
    log.roll(NOW)
    fill(log, 2)
    log.roll(NOW)
    disk.on(f"{4:020d}.log", lambda: sync_elsewhere(log))
    log.truncate_to(offset, NOW)
    assert disk.word == ""
    assert log.recovery_point <= log.end == offset


def test_a_sync_that_begins_while_all_is_cut_vouches_for_nothing(log: Log, disk: Hooked) -> None:
    fill(log, 4)
    disk.on(f"{0:020d}.log", lambda: sync_elsewhere(log))
    log.truncate_all(1, NOW)
    assert disk.word == ""
    assert log.recovery_point <= log.end == 1


def sync_elsewhere(log: Log) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(log.sync).result(10)


def test_the_index_of_a_segment_that_was_synced_before_it_was_sealed_is_synced_too(
    log: Log, disk: Hooked
) -> None:
    fill(log, 2)
    log.sync()
    log.roll(NOW)
    disk.synced.clear()
    fill(log, 1)
    log.sync()
    assert {f"{0:020d}.index", f"{0:020d}.timeindex"} <= set(disk.synced)
    disk.synced.clear()
    fill(log, 1)
    log.sync()
    assert disk.synced == [f"{2:020d}.log"]


def test_a_truncated_log_remembers_its_producers_over_a_clean_stop(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    for number in range(3):
        put(log, batch(producer_id=1, producer_epoch=0, sequence=number))
    log.close()
    log = open_log(tmp_path / "orders-0")
    log.truncate_to(2, NOW)
    log.close()
    log = open_log(tmp_path / "orders-0")
    assert log.producers.by_id[1].last_sequence == 1
