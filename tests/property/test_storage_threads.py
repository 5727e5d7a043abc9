"""Syncs, compaction and checkpoints in threads, while the event loop appends, deletes and retains.

Few descriptors, small segments, and no order that anybody planned. No directory fails, and what a
crash leaves is all that was written, with the producers that wrote it.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.model.ids import TopicPartition
from penstock.platform.disk import Disk
from penstock.platform.workers import ThreadWorkers
from penstock.storage.compaction import Compactor
from penstock.storage.flush import GroupCommit
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.retention import retain
from penstock.storage.store import LogStore
from tests.unit.storage.logs import batch, put

PARTITIONS = 4
STEPS = 1500
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=100, file_delete_delay_ms=0)
CONFIGS = (
    SMALL._replace(retention_bytes=6000),
    SMALL._replace(cleanup_delete=False, cleanup_compact=True, min_cleanable_dirty_ratio=0.01),
)


class Mayhem:
    """One store, and everything that may happen to it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        disk = Disk(open_files_max=4)
        self.store = LogStore([str(root)], node_id=1, cluster_id="c", disk=disk)
        self.store.open()
        self.now = self.store.clock.now()  # a producer that was silent for a day is forgotten
        self.store.on_offline = lambda directory, _: self.failures.append(directory.error)
        self.workers = ThreadWorkers(4)
        self.commits = GroupCommit(self.workers, self.store.sync_failed)
        self.store.context.on_roll = self.commits.sync_soon
        self.compactor = Compactor(disk, self.workers)
        self.failures: list[OSError | None] = []
        self.sequences: dict[tuple[Log, int], int] = {}
        for number in range(PARTITIONS):
            self.create(TopicPartition("t", number))

    def create(self, key: TopicPartition) -> None:
        self.store.create(*key, self.chance.randbytes(16), CONFIGS[key.partition % 2])

    def append(self, log: Log) -> None:
        for _ in range(self.chance.randint(1, 5)):
            producer = self.chance.randrange(3)
            sequence = self.sequences.get((log, producer), 0)
            self.sequences[log, producer] = sequence + 1
            value = bytes(self.chance.randrange(200))
            options: dict[str, Any] = {"producer_id": producer, "producer_epoch": 0}
            put(log, batch(value=value, timestamp=self.now, sequence=sequence, **options))
        log.high_watermark = log.end
        self.commits.wait_synced(log, log.end)

    def disturb(self, log: Log) -> None:
        dice = self.chance.random()
        if dice < 0.2:
            retain(log, self.now)
        elif dice < 0.25:
            remove = self.store.take_trash(self.now + 100_000)
            if remove is not None:
                self.workers.submit(remove)
        elif dice < 0.27:
            self.store.delete(log.topic_partition)
            self.compactor.forget(log.topic_partition)
            self.create(log.topic_partition)
        elif dice < 0.3:
            for _, write in self.store.checkpoint_work():
                self.workers.submit(write)
        elif dice < 0.35:
            log.advance_start(self.chance.randint(log.start, log.end))

    async def compact(self) -> None:
        while True:
            await self.compactor.run_once(list(self.store.logs.values()), self.now)
            await asyncio.sleep(0.002)

    async def run(self) -> None:
        compacting = asyncio.ensure_future(self.compact())
        for _ in range(STEPS):
            log = self.store.logs[TopicPartition("t", self.chance.randrange(PARTITIONS))]
            self.append(log)
            self.disturb(log)
            assert self.failures == []
            assert not compacting.done(), compacting.exception()
            if self.chance.random() < 0.3:
                await asyncio.sleep(0.0005)
        self.compactor.cancel()
        compacting.cancel()
        await asyncio.wait([compacting])
        await self.commits.drain()
        self.workers.close()


@pytest.mark.parametrize("seed", range(2))
async def test_threads_and_the_event_loop_do_not_harm_each_other(tmp_path: Path, seed: int) -> None:
    mayhem = Mayhem(tmp_path, seed)
    await mayhem.run()
    logs = mayhem.store.logs.copy()
    expected = {key: {head.base_offset for head, _ in log.batches(0)} for key, log in logs.items()}
    mayhem.store.close(clean=False)
    again = LogStore([str(tmp_path)], node_id=1, cluster_id="c")
    again.open()
    for key, before in logs.items():
        log = again.logs[key]
        assert (log.topic_id, log.end) == (before.topic_id, before.end)
        found = {head.base_offset for head, _ in log.batches(0)}
        if before.is_compacted:  # a round that was under way is finished by the start
            assert max(found, default=-1) == max(expected[key], default=-1)
        else:
            assert found >= expected[key]
        for each, producer in before.producers.by_id.items():
            if producer.last_offset >= log.start:  # else all that it wrote was deleted
                assert log.producers.by_id[each].last_sequence == producer.last_sequence
    again.close(False)
