"""Loading a shard: all of its log, in slices between which the node serves others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.coordination import loading
from penstock.coordination.group.settings import GroupSettings
from penstock.coordination.group.shard import GroupShard
from penstock.coordination.loading import Abandoned, ShardLoader
from penstock.model.errors import ErrorCode
from penstock.platform.chance import SystemChance
from penstock.platform.workers import InlineWorkers
from penstock.protocol.generated.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.protocol.record_frames import GROUP
from penstock.records.builder import BatchBuilder
from penstock.replica.partition import Appended
from penstock.storage.store import LogStore
from tests.unit.coordination.classic.stage import Stage
from tests.unit.coordination.driving import Drive, Numbers, put

NOON = 1_700_000_000_000
HELD_SECONDS_MAX = 0.05


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    made.open()
    yield made
    made.close()


def write(drive: Drive, *pairs: tuple[bytes, bytes | None]) -> None:
    builder = BatchBuilder()
    for key, value in pairs:
        builder.append(key, value, NOON)
    result = drive.partition.append_own(bytearray(builder.build()), NOON)
    assert isinstance(result, Appended)


def number(name: str, value: int) -> tuple[bytes, bytes]:
    key = GROUP.write_key(GroupMetadataKey(group=name))
    return key, GROUP.write_value(GroupMetadataValue(generation=value), 3)


async def test_everything_in_the_log_is_replayed_in_order(store: LogStore) -> None:
    drive = Drive(store)
    write(drive, number("a", 1), number("b", 2))
    write(drive, number("a", 3), (number("b", 0)[0], None))
    drive.lead()
    assert drive.runtime.loading
    await drive.loaded()
    assert drive.shard.by_name == {"a": 3}
    assert drive.shard.replayed == [0, 1, 2, 3]
    assert drive.shard.loaded == 1


async def test_an_empty_log_is_loaded_at_once(store: LogStore) -> None:
    drive = Drive(store)
    drive.lead()
    assert not drive.runtime.loading
    assert drive.shard.loaded == 1


async def test_records_of_a_newer_version_are_skipped(store: LogStore) -> None:
    drive = Drive(store)
    write(drive, (b"\x03\xe8unknown", b"\0\0"), number("a", 1))
    drive.lead()
    await drive.loaded()
    assert drive.shard.by_name == {"a": 1}


async def test_a_damaged_record_keeps_the_shard_from_answering(
    store: LogStore, caplog: pytest.LogCaptureFixture
) -> None:
    drive = Drive(store)
    write(drive, number("a", 1), (number("a", 1)[0], b"\0\3\xff"))
    drive.lead()
    for _ in range(10):
        await asyncio.sleep(0)
    assert "cannot load" in caplog.text
    response = drive.call(put("a", 2))
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_markers_tell_the_shard_that_a_transaction_ended(store: LogStore) -> None:
    drive = Drive(store)
    write(drive, number("a", 1))
    result = drive.partition.append_marker(7, 3, 0, False, NOON)
    assert isinstance(result, Appended)
    drive.lead()
    await drive.loaded()
    assert drive.shard.ended == [(7, 3, False)]


async def test_nobody_goes_on_loading_what_nobody_wants(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = Drive(store)
    write(drive, *(number(f"n{at}", at) for at in range(1000)))
    wanted = iter([True, False])
    shard = Numbers()
    loader = ShardLoader(
        drive.log, shard, GROUP, InlineWorkers(), 1 << 20, lambda: next(wanted, False)
    )
    monkeypatch.setattr(loading, "SLICE_SECONDS", -1.0)
    with pytest.raises(Abandoned):
        await loader.load()
    assert 0 < len(shard.by_name) < 1000


async def test_a_shard_of_200_000_offsets_loads_without_holding_the_node(
    store: LogStore,
) -> None:
    drive = Drive(store)
    for first in range(0, 200_000, 5000):
        write(drive, *(_offset(at) for at in range(first, first + 5000)))
    settings: GroupSettings = Stage().settings
    shard = GroupShard(0, settings, SystemChance())
    loader = ShardLoader(drive.log, shard, GROUP, InlineWorkers(), 5 << 20, lambda: True)
    task = asyncio.get_running_loop().create_task(loader.load())
    held = []
    while not task.done():
        # The processor's time, not the wall's: a busy machine's pauses are not the loader's.
        before = time.thread_time()
        await asyncio.sleep(0)
        held.append(time.thread_time() - before)
    await task
    assert loader.records == 200_000
    assert max(held) < HELD_SECONDS_MAX, sorted(held)[-5:]


async def test_many_shards_that_load_hold_the_node_no_longer_than_one(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "SLICE_SECONDS", -1.0)
    monkeypatch.setattr(loading, "RECORDS_PER_LOOK", 1)
    drive = Drive(store)
    partitions = [drive.partition, *(drive.another(store, index) for index in range(1, 10))]
    for drive.partition in partitions:
        write(drive, *(number(f"n{at}", at) for at in range(20)))
        drive.lead()
    drive.runtime.lose(5)  # while it waits for its turn
    steps, seen = [], 0
    while drive.runtime.loading:
        await asyncio.sleep(0)
        now = sum(len(it.replayed) for it in drive.shards)
        steps.append(now - seen)
        seen = now
    assert seen == 9 * 20
    assert max(steps) == 1, "in one turn of the loop"


def _offset(at: int) -> tuple[bytes, bytes]:
    key = OffsetCommitKey(group=f"group-{at % 100}", topic="topic", partition=at // 100)
    value = OffsetCommitValue(offset=at, metadata="", commit_timestamp=NOON)
    return GROUP.write_key(key), GROUP.write_value(value, 3)
