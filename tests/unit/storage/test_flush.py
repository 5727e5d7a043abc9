"""Group commit: one fdatasync for everybody who waits."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from penstock.platform.disk import Disk
from penstock.platform.workers import InlineWorkers, Outcome, ThreadWorkers
from penstock.storage.flush import GroupCommit
from penstock.storage.log import Log
from tests.unit.storage.logs import NOW, batch, fill, open_log, put

LATE = 61
"""The errand that takes its time."""


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


async def test_logs_with_quick_syncs_share_an_errand_and_slow_ones_do_not(
    tmp_path: Path, disk: SlowDisk
) -> None:
    errands: list[int] = []

    class Counted(InlineWorkers):
        def submit(self, work: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
            done = super().submit(work)
            errands.append(len(cast("list[int]", done.result())))
            return done

    disk.gate.set()
    logs = [open_log(tmp_path / str(number), disk=disk) for number in range(4)]
    commit = GroupCommit(Counted(), ignore)

    async def sync_all() -> list[int]:
        errands.clear()
        await asyncio.gather(*(commit.wait_synced(log, append(log)) for log in logs))
        return errands

    assert await sync_all() == [1, 1, 1, 1]  # nobody knows yet how long one takes
    for _ in range(50):
        await sync_all()
    assert await sync_all() == [4]


async def test_nobody_waits_long_for_an_errand_whose_disk_hangs(
    tmp_path: Path, log: Log, disk: SlowDisk
) -> None:
    quick = open_log(tmp_path / "quick")
    commit = GroupCommit(ThreadWorkers(2), ignore)
    for _ in range(60):  # long enough to know that syncs are quick
        await commit.wait_synced(quick, append(quick))
    hung = commit.wait_synced(log, append(log))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await commit.wait_synced(quick, append(quick))
    assert not hung.done()
    disk.gate.set()
    await hung


async def test_few_logs_wait_for_an_errand_and_then_share_one(
    tmp_path: Path, log: Log, disk: SlowDisk
) -> None:
    class OneLate(InlineWorkers):
        """At once, but for an errand that never seems to end."""

        late: Callable[[], None] | None = None
        errands = 0

        def submit(self, work: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
            self.errands += 1
            if self.errands != LATE:
                return super().submit(work)
            done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            self.late = lambda: done.set_result(work())
            return done

    disk.gate.set()  # nothing waits for a disk here, whose time nobody knows
    workers = OneLate()
    commit = GroupCommit(workers, ignore)
    others = [open_log(tmp_path / str(number), disk=disk) for number in range(2)]
    for _ in range(LATE - 1):  # long enough to know that syncs are quick
        await commit.wait_synced(others[0], append(others[0]))
    first = commit.wait_synced(log, append(log))
    await asyncio.sleep(0)
    assert workers.late is not None
    waiting = [commit.wait_synced(each, append(each)) for each in others]
    await asyncio.sleep(0)
    assert [each.recovery_point for each in others] == [LATE - 1, 0]
    workers.late()
    await asyncio.gather(first, *waiting)
    assert [each.recovery_point for each in others] == [LATE, 1]
    assert workers.errands == LATE + 1


async def test_whoever_comes_in_the_same_turn_shares_a_sync(log: Log, disk: SlowDisk) -> None:
    disk.gate.set()
    commit = GroupCommit(InlineWorkers(), ignore)
    await asyncio.gather(*(commit.wait_synced(log, append(log)) for _ in range(20)))
    assert disk.syncs == 1


async def test_a_log_that_fails_takes_none_of_its_errand_along(
    tmp_path: Path, disk: SlowDisk
) -> None:
    disk.gate.set()
    failures: list[Log] = []
    commit = GroupCommit(InlineWorkers(), lambda log, _: failures.append(log))
    logs = [open_log(tmp_path / str(number), disk=disk) for number in range(3)]
    for _ in range(60):  # long enough to know that syncs are quick
        await asyncio.gather(*(commit.wait_synced(log, append(log)) for log in logs))
    logs[1].unsynced.failure = OSError(errno.EIO, "input/output error")
    outcomes = await asyncio.gather(
        *(commit.wait_synced(log, append(log)) for log in logs), return_exceptions=True
    )
    assert [isinstance(each, OSError) for each in outcomes] == [False, True, False]
    assert failures == [logs[1]]
    assert [log.recovery_point for log in logs] == [61, 60, 61]


async def test_draining_begins_what_is_due(log: Log, disk: SlowDisk) -> None:
    disk.gate.set()
    commit = GroupCommit(ThreadWorkers(1), ignore)
    append(log)
    commit.sync_soon(log)
    await commit.drain()
    assert log.recovery_point == 1


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
