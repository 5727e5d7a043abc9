"""A log to compact, and ways to look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from penstock.model.ids import TopicPartition
from penstock.platform.disk import Disk
from penstock.platform.workers import InlineWorkers
from penstock.records.batch import BatchHead, crc_of, read_head
from penstock.records.builder import BatchBuilder, end_txn_batch
from penstock.records.record import iterate
from penstock.storage.compaction import Compactor
from penstock.storage.compaction_round import Compacted
from penstock.storage.context import LogContext
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.recovery import load_log

NOW = 1_700_000_000_000
DAY = 86_400_000
PARTITION = TopicPartition("topic", 0)
CONFIG = LogConfig(
    cleanup_compact=True, cleanup_delete=False, min_cleanable_dirty_ratio=0.0, segment_bytes=1 << 20
)

Pair = tuple[bytes | None, bytes | None]


class Bench:
    """One log in a directory of its own, with the clock in the test's hands."""

    def __init__(self, root: str, config: LogConfig = CONFIG, disk: Disk | None = None) -> None:
        self.root = root
        self.directory = f"{root}/{PARTITION}"
        self.config = config
        self.disk = disk or Disk()
        self.disk.mkdir(self.directory)
        self.now = NOW
        self.compactor = Compactor(self.disk, InlineWorkers())
        self.log = self.open()

    def open(self, *, clean: bool = False) -> Log:
        log = load_log(
            LogContext(self.disk),
            PARTITION,
            bytes(16),
            self.directory,
            self.config,
            clean=clean,
            now=self.now,
        )
        log.high_watermark = log.end
        log.producers.advance_high_watermark(log.end)
        return log

    def reopen(self, *, clean: bool = False) -> Log:
        """As after a crash: nothing of the old log is closed."""
        self.log = self.open(clean=clean)
        return self.log

    def append(self, pairs: Iterable[Pair], **settings: int) -> BatchHead:
        builder = BatchBuilder(base_offset=self.log.end, leader_epoch=0, **settings)  # type: ignore[arg-type]
        for key, value in pairs:
            builder.append(key, value, self.now)
        return self.append_batch(builder.build())

    def append_batch(self, batch: bytes) -> BatchHead:
        head = read_head(batch)
        self.log.append(batch, head, head.base_offset, head.leader_epoch, self.now)
        self.log.high_watermark = self.log.end
        self.log.producers.advance_high_watermark(self.log.end)
        return head

    def end_txn(self, producer_id: int, *, commit: bool, epoch: int = 0) -> BatchHead:
        return self.append_batch(
            end_txn_batch(
                is_commit=commit,
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=0,
                timestamp=self.now,
                base_offset=self.log.end,
                leader_epoch=0,
            )
        )

    def roll(self) -> None:
        self.log.roll(self.now)

    def compact(self) -> Compacted | None:
        return asyncio.run(self.compactor.run_once([self.log], self.now))

    def heads(self) -> list[BatchHead]:
        found = []
        for head, batch in self.log.batches(self.log.start):
            assert crc_of(batch, 0, len(batch)) == head.crc
            found.append(head)
        return found

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of every data record."""
        return [
            (
                record.offset,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
            )
            for head, batch in self.log.batches(self.log.start)
            if not head.is_control
            for record in iterate(batch)
        ]

    def values(self) -> dict[bytes | None, bytes | None]:
        """What a reader from the start ends up with."""
        return {key: value for _, key, value in self.records()}
