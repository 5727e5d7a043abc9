"""Group commit: one fdatasync for everybody who waits."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from penstock.platform.disk import Disk
from penstock.platform.workers import InlineWorkers, ThreadWorkers
from penstock.storage.flush import GroupCommit
from penstock.storage.log import Log
from tests.unit.storage.logs import NOW, batch, fill, open_log, put


class SlowDisk(Disk):
    """Syncs only when it is let to, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.syncs = 0
        self.error: OSError | None = None

    def sync_fd(self, fd: int) -> None:
        self.gate.wait(10)
        self.syncs += 1
        if self.error is not None:
            raise self.error

    def sync_directory(self, path: str) -> None:
        pass


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def log(tmp_path: Path, disk: SlowDisk) -> Log:
    log = open_log(tmp_path, disk=disk)
    log.unsynced.names = False  # only batches count in these tests
    return log


def ignore(log: Log, error: OSError) -> None:
    raise AssertionError(f"{log} failed: {error}")


def append(log: Log) -> int:
    put(log, batch(), epoch=-1)
    return log.end


async def test_everyone_who_arrives_during_a_sync_shares_the_next(log: Log, disk: SlowDisk) -> None:
    workers = ThreadWorkers(2)
    commit = GroupCommit(workers, ignore)
    first = commit.wait_synced(log, append(log))
    await asyncio.sleep(0.05)  # the first sync is under way, and has taken note of its end
    later = [commit.wait_synced(log, append(log)) for _ in range(20)]
    assert not first.done() and not any(each.done() for each in later)
    disk.gate.set()
    await asyncio.gather(first, *later)
    assert disk.syncs == 2
    assert log.recovery_point == 21
    workers.close()


async def test_what_is_synced_already_needs_no_wait(log: Log, disk: SlowDisk) -> None:
    disk.gate.set()
    commit = GroupCommit(InlineWorkers(), ignore)
    await commit.wait_synced(log, append(log))
    assert commit.wait_synced(log, 1).done()
    assert disk.syncs == 1


async def test_a_failed_sync_reaches_all_who_wait_and_is_not_tried_again(
    log: Log, disk: SlowDisk
) -> None:
    disk.error = OSError(errno.EIO, "input/output error")
    disk.gate.set()
    failures: list[tuple[Log, OSError]] = []
    commit = GroupCommit(ThreadWorkers(1), lambda log, error: failures.append((log, error)))
    waiting = [commit.wait_synced(log, append(log)) for _ in range(3)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert outcomes == [disk.error] * 3
    assert failures == [(log, disk.error)]
    assert disk.syncs == 1
    assert log.recovery_point == 0


async def test_a_waiter_that_gave_up_does_not_disturb_the_others(log: Log, disk: SlowDisk) -> None:
    commit = GroupCommit(ThreadWorkers(1), ignore)
    patient, impatient = (commit.wait_synced(log, append(log)) for _ in range(2))
    impatient.cancel()
    disk.gate.set()
    await patient
    await commit.drain()  # the second batch may have come too late for the first sync
    assert log.recovery_point == 2


async def test_draining_waits_for_every_sync(log: Log, disk: SlowDisk) -> None:
    commit = GroupCommit(ThreadWorkers(1), ignore)
    waiting = commit.wait_synced(log, append(log))
    asyncio.get_running_loop().call_later(0.02, disk.gate.set)
    await commit.drain()
    assert waiting.done() and log.recovery_point == 1


async def test_a_truncation_during_a_sync_is_not_undone_by_its_end(
    log: Log, disk: SlowDisk
) -> None:
    commit = GroupCommit(ThreadWorkers(1), ignore)
    fill(log, 10)
    commit.sync_soon(log)
    await asyncio.sleep(0.05)
    log.truncate_to(4, NOW)
    disk.gate.set()
    await commit.drain()
    assert log.recovery_point <= 4


async def test_a_log_deleted_during_a_sync_is_no_failure(log: Log, disk: SlowDisk) -> None:
    commit = GroupCommit(ThreadWorkers(1), ignore)
    fill(log, 3)
    log.roll(NOW)
    fill(log, 3)
    commit.sync_soon(log)
    await asyncio.sleep(0.05)
    log.abandon()
    disk.gate.set()
    await commit.drain()


def test_a_sync_reaches_batches_indexes_snapshots_epochs_and_names_in_that_order(
    tmp_path: Path,
) -> None:
    steps: list[str] = []

    class Watched(Disk):
        def sync_fd(self, fd: int) -> None:
            import os

            steps.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))

        def sync_directory(self, path: str) -> None:
            steps.append(f"directory {path}")

    log = open_log(tmp_path / "orders-0", disk=Watched())
    put(log, batch(producer_id=1, producer_epoch=0, sequence=0))
    log.roll(NOW)
    put(log, batch())
    steps.clear()
    assert log.sync() == 2
    zero, one = "00000000000000000000", "00000000000000000001"
    assert steps == [
        f"{zero}.log",
        f"{zero}.index",
        f"{zero}.timeindex",
        f"{one}.log",
        "leader-epoch-checkpoint.tmp",
        f"directory {tmp_path}/orders-0",
        f"{one}.snapshot",
        "leader-epoch-checkpoint",
        f"directory {tmp_path}/orders-0",
        f"directory {tmp_path}",
    ]
    steps.clear()
    put(log, batch())
    log.sync()
    assert steps == [f"{one}.log"]
