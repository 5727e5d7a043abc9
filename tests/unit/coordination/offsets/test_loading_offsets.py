"""Loading a shard of offsets: with the short cut, in slices, and out of the collector's sight."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest

from penstock.coordination import loading
from penstock.coordination.loading import ShardLoader
from penstock.protocol.generated.group_records import OffsetCommitKey, OffsetCommitValue
from penstock.protocol.record_frames import GROUP
from penstock.records.batch import patch_base
from penstock.records.builder import BatchBuilder, end_txn_batch
from tests.unit.coordination.offsets.desk import TOPIC_ID, Desk


class Pages:
    """A log that lies in memory, one batch to a read."""

    start = 0

    def __init__(self) -> None:
        self.end = 0
        self._batches: dict[int, bytes] = {}

    def append(self, batch: bytes, count: int) -> None:
        data = bytearray(batch)
        patch_base(memoryview(data), 0, self.end, 0)
        self._batches[self.end] = bytes(data)
        self.end += count

    def read(self, offset: int, size: int, end: int) -> Any:
        data = self._batches[offset]
        return type("Slice", (), {"read_cached": lambda self: data})()


def commits(group: str, offsets: range, **options: Any) -> bytes:
    builder = BatchBuilder(**options)
    for offset in offsets:
        key = OffsetCommitKey(group=group, topic="t", partition=offset)
        value = OffsetCommitValue(offset=offset, commit_timestamp=1, topic_id=TOPIC_ID)
        builder.append(GROUP.write_key(key), GROUP.write_value(value, 4), 1)
    return builder.build()


async def load(desk: Desk, pages: Pages) -> None:
    source: Any = pages
    workers: Any = None
    await ShardLoader(source, desk.shard, GROUP, workers, 1 << 20, lambda: True).load()


async def test_plain_and_transactional_commits_are_loaded() -> None:
    pages = Pages()
    transactional = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    pages.append(commits("g", range(3)), 3)
    pages.append(commits("g", range(2, 5), **transactional), 3)
    pages.append(commits("g", range(4, 6)), 2)
    marker = {"producer_id": 9, "producer_epoch": 0, "coordinator_epoch": 0, "timestamp": 1}
    pages.append(end_txn_batch(is_commit=True, **marker), 1)
    desk = Desk()
    await load(desk, pages)
    assert [desk.offset("g", partition=at) for at in range(6)] == [0, 1, 2, 3, 4, 5]
    assert not desk.shard.offsets.any_open


async def test_loading_lets_others_work_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SLICE_SECONDS", 0.001)
    pages = Pages()
    for number in range(100):
        pages.append(commits(f"g{number}", range(100)), 100)
    desk = Desk()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while len(desk.shard.offsets) < 10_000:
            turns += 1
            await asyncio.sleep(0)

    begun = time.thread_time()
    await asyncio.gather(load(desk, pages), others())
    assert turns > (time.thread_time() - begun) / 0.05


async def test_what_was_loaded_is_out_of_the_collectors_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "FREEZE_BYTES", 1)
    pages = Pages()
    pages.append(commits("g", range(10)), 10)
    desk = Desk()
    before = gc.get_freeze_count()
    try:
        await load(desk, pages)
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
