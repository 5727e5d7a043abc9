"""A partition over a real log: what it takes, what it shows, whom it tells."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId
from penstock.model.invariants import InvariantViolated
from penstock.records.batch import read_head
from penstock.replica.partition import BYTES_UNCOUNTED, Appended, Partition, Readable, Refused
from penstock.replica.transactions import Unverified
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore
from tests.unit.server.asking import NOON, batch

NODE = NodeId(1)
TOPIC_ID = b"t" * 16


class Syncs:
    """A disk whose syncs end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    def wait_synced(self, log: Log, offset: int) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((offset, done))
        return done


class Waiter:
    def __init__(self) -> None:
        self.told: list[int] = []

    def progress(self, size: int) -> None:
        self.told.append(size)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    made.open()
    yield made
    made.close()


@pytest.fixture
def syncs() -> Syncs:
    return Syncs()


def leading(store: LogStore, syncs: Syncs, **config: object) -> Partition:
    log = store.create("t", 0, TOPIC_ID, LogConfig(**config))  # type: ignore[arg-type]
    partition = Partition(NODE, log, 0, syncs)
    partition.lead(0, (NODE,), (NODE,))
    return partition


def append(partition: Partition, data: bytes, now: int = NOON) -> Appended | Refused:
    result = partition.append(memoryview(bytearray(data)), now)
    assert not isinstance(result, Unverified)
    return result


def test_offsets_are_assigned_and_the_epoch_is_written(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs)
    partition.lead(4, (NODE,), (NODE,))
    assert append(partition, batch(3)) == Appended(0, 3, -1, 0)
    assert append(partition, batch(2)) == Appended(3, 5, -1, 0)
    heads = [head for head, _ in partition.log.batches(0)]
    assert [(head.base_offset, head.leader_epoch) for head in heads] == [(0, 4), (3, 4)]
    assert partition.high_watermark == 5


def test_a_follower_takes_nothing_from_producers(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs)
    partition.step_down(1, 2)
    assert append(partition, batch()) == Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_leader_epoch_never_goes_back(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs)
    partition.lead(5, (NODE,), (NODE,))
    with pytest.raises(InvariantViolated):
        partition.lead(4, (NODE,), (NODE,))


def test_a_damaged_batch_is_refused_and_leaves_no_trace(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs)
    data = bytearray(batch(3))
    data[-1] ^= 1
    assert append(partition, bytes(data)) == Refused(ErrorCode.CORRUPT_MESSAGE)
    assert (partition.log.end, partition.log.size) == (0, 0)


def test_a_retry_is_answered_with_the_offsets_of_the_first_time(
    store: LogStore, syncs: Syncs
) -> None:
    partition = leading(store, syncs)
    options = {"producer_id": 9, "producer_epoch": 0}
    append(partition, batch(3, base_sequence=0, **options))
    append(partition, batch(2, base_sequence=3, **options))
    again = append(partition, batch(3, base_sequence=0, **options))
    assert isinstance(again, Appended) and (again.base_offset, again.end_offset) == (0, 3)
    assert partition.log.end == 5


def test_the_brokers_time_is_written_where_the_topic_asks(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs, timestamp_append=True)
    assert append(partition, batch(2), NOON + 77) == Appended(0, 2, NOON + 77, 0)
    head = read_head(partition.log.read_bytes(0, 1000))
    assert head.max_timestamp == NOON + 77 and head.is_append_time


def test_a_clock_gone_wrong_is_refused_with_the_record_named(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs, timestamp_after_max_ms=500)
    refused = append(partition, batch(3), NOON)
    assert isinstance(refused, Refused) and refused.error == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [1, 2]


def test_a_disk_that_fails_is_an_answer(
    store: LogStore, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = leading(store, syncs)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("penstock.platform.disk._pwrite", fail)
    refused = append(partition, batch())
    assert isinstance(refused, Refused) and refused.error == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert append(partition, batch()) == Appended(0, 1, -1, 0)


# -- commitment ------------------------------------------------------------------------------


async def test_with_flush_messages_nothing_is_committed_before_the_sync(
    store: LogStore, syncs: Syncs
) -> None:
    partition = leading(store, syncs, flush_messages=1)
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[ErrorCode]] = [loop.create_future() for _ in range(2)]
    for future in futures:
        result = append(partition, batch())
        assert isinstance(result, Appended)
        partition.await_commit(result.end_offset, future)
    assert partition.high_watermark == 0
    syncs.waiting[0][1].set_result(None)
    await asyncio.sleep(0)
    assert partition.high_watermark == 1
    assert [future.done() for future in futures] == [True, False]
    syncs.waiting[1][1].set_result(None)
    await asyncio.sleep(0)
    assert [future.result() for future in futures] == [ErrorCode.NONE] * 2


async def test_who_waits_for_a_sync_is_told_of_it_by_an_append_that_hears_of_it_first(
    store: LogStore, syncs: Syncs
) -> None:
    partition = leading(store, syncs, flush_messages=2)
    synced: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    append(partition, batch())
    append(partition, batch())
    partition.waits.await_sync(2, synced)
    # A worker has synced the log; that its future is done reaches the event loop later.
    partition.log.recovery_point = partition.log.sync()
    append(partition, batch())
    assert partition.synced == partition.high_watermark == 3
    syncs.waiting[0][1].set_result(None)
    await asyncio.sleep(0)
    assert synced.done() and synced.result() == ErrorCode.NONE


@pytest.mark.parametrize("kind", ["commits", "syncs"])
async def test_a_retry_does_not_wait_for_what_came_after_the_first_try(
    store: LogStore, syncs: Syncs, kind: str
) -> None:
    partition = leading(store, syncs, flush_messages=1)
    wait = partition.await_commit if kind == "commits" else partition.waits.await_sync
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[ErrorCode]] = [loop.create_future() for _ in range(3)]
    for sequence, future in zip((0, 1, 0), futures, strict=True):
        data = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
        result = append(partition, data)
        assert isinstance(result, Appended) and result.base_offset == sequence
        wait(result.end_offset, future)
    syncs.waiting[0][1].set_result(None)
    await asyncio.sleep(0)
    assert [future.done() for future in futures] == [True, False, True]


async def test_a_new_epoch_commits_nothing_that_waits_for_its_sync(
    store: LogStore, syncs: Syncs
) -> None:
    partition = leading(store, syncs, flush_messages=1)
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    append(partition, batch())
    partition.await_commit(1, future)
    partition.lead(1, (NODE,), (NODE,))
    assert not future.done()
    assert partition.high_watermark == 0
    syncs.waiting[0][1].set_result(None)
    await asyncio.sleep(0)
    assert future.result() == ErrorCode.NONE


async def test_a_retry_after_a_crash_is_answered_when_the_first_try_is_durable(
    store: LogStore, syncs: Syncs
) -> None:
    before = leading(store, syncs, flush_messages=1)
    data = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    append(before, data)  # and the process ends before the sync
    after = Partition(NODE, before.log, 0, syncs)
    after.lead(1, (NODE,), (NODE,))
    assert append(after, data) == Appended(0, 1, NOON, 0)
    assert after.high_watermark == 0
    syncs.waiting[-1][1].set_result(None)
    await asyncio.sleep(0)
    assert after.high_watermark == 1


async def test_readers_are_told_after_a_sync_to_count_for_themselves(
    store: LogStore, syncs: Syncs
) -> None:
    partition = leading(store, syncs, flush_messages=1)
    waiter = Waiter()
    partition.audience.park(waiter)
    append(partition, batch(3))
    assert waiter.told == []
    syncs.waiting[0][1].set_result(None)
    await asyncio.sleep(0)
    assert waiter.told == [BYTES_UNCOUNTED]


async def test_a_failed_sync_is_told_to_everyone_who_waits(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs, flush_messages=1)
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    append(partition, batch())
    partition.await_commit(1, future)
    syncs.waiting[0][1].set_exception(OSError(errno.EIO, "the disk is gone"))
    await asyncio.sleep(0)
    assert future.result() == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_that_moved_away_may_fail_to_sync(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs, flush_messages=1)
    append(partition, batch())
    store.logs.clear()  # the copy has the same name
    copy = store.create("u", 0, TOPIC_ID, LogConfig(flush_messages=1))
    copy.append_batches(partition.log.read_bytes(0, 1000), NOON)
    partition.use_log(copy)
    assert partition.high_watermark == 1
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    append(partition, batch())
    partition.await_commit(2, future)
    syncs.waiting[0][1].set_exception(OSError(errno.ENOENT, "it is elsewhere"))
    await asyncio.sleep(0)
    assert not future.done()
    syncs.waiting[1][1].set_result(None)
    await asyncio.sleep(0)
    assert future.result() == ErrorCode.NONE


async def test_stepping_down_releases_everyone(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs, flush_messages=1)
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    waiter = Waiter()
    append(partition, batch())
    partition.await_commit(1, future)
    partition.audience.park(waiter)
    partition.step_down(1, 2)
    assert future.result() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert waiter.told == [0]


def test_waiters_are_told_of_bytes_until_they_leave(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs)
    waiter = Waiter()
    partition.audience.park(waiter)
    append(partition, batch(3))
    partition.audience.unpark(waiter)
    append(partition, batch(3))
    assert waiter.told == [len(batch(3))]


# -- reading ---------------------------------------------------------------------------------


def read(partition: Partition, offset: int, size_max: int = 10_000) -> Readable | ErrorCode:
    return partition.read(offset, size_max, True, False)


def test_reading_gives_whole_batches_up_to_the_watermark(store: LogStore, syncs: Syncs) -> None:
    partition = leading(store, syncs)
    for number in range(3):
        append(partition, batch(2, 2 * number))
    found = read(partition, 3)
    assert isinstance(found, Readable) and found.data is not None
    assert read_head(found.data.read()).base_offset == 2
    assert (found.high_watermark, found.last_stable, found.log_start) == (6, 6, 0)


@pytest.mark.parametrize(("offset", "readable"), [(-1, False), (0, True), (2, True), (3, False)])
def test_offsets_outside_the_log_are_out_of_range(
    store: LogStore, syncs: Syncs, offset: int, readable: bool
) -> None:
    partition = leading(store, syncs)
    append(partition, batch(2))
    found = read(partition, offset)
    assert isinstance(found, Readable) if readable else found == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_what_is_not_committed_is_not_shown_to_consumers(
    store: LogStore, syncs: Syncs
) -> None:
    partition = leading(store, syncs, flush_messages=1)
    append(partition, batch(2))
    assert read(partition, 0) == Readable(None, 0, 0, 0)
    assert read(partition, 2) == Readable(None, 0, 0, 0)
    assert read(partition, 3) == ErrorCode.OFFSET_OUT_OF_RANGE
    found = partition.read(0, 10_000, True, False, uncommitted_too=True)
    assert isinstance(found, Readable) and found.data is not None


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (5, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_clients_view_of_the_leader_is_checked(
    store: LogStore, syncs: Syncs, epoch: int, error: ErrorCode
) -> None:
    partition = leading(store, syncs)
    partition.lead(5, (NODE,), (NODE,))
    assert partition.check_epoch(epoch) == error


@pytest.mark.parametrize(
    ("epoch", "offset", "parted"),
    [
        (0, 2, None),
        (0, 3, (0, 2)),  # epoch 0 ended at 2
        (1, 2, (0, 2)),  # nobody wrote in epoch 1
        (3, 4, None),
        (3, 5, (3, 4)),
        (7, 4, ErrorCode.OFFSET_OUT_OF_RANGE),  # an epoch from the future
    ],
)
def test_a_reader_learns_where_its_log_parted_from_the_leaders(
    store: LogStore, syncs: Syncs, epoch: int, offset: int, parted: object
) -> None:
    partition = leading(store, syncs)
    append(partition, batch(2))
    partition.lead(3, (NODE,), (NODE,))
    append(partition, batch(2))
    assert partition.divergence(epoch, offset) == parted


def test_the_watermark_of_a_restart_is_kept_within_the_log(store: LogStore, syncs: Syncs) -> None:
    log = store.create("t", 0, TOPIC_ID, LogConfig())
    assert Partition(NODE, log, 99, syncs).high_watermark == 0
    assert Partition(NODE, log, -1, syncs).high_watermark == 0
