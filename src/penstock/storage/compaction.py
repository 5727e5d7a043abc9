"""Compaction: keep the newest record of every key, in the background.

The driver picks the dirtiest log and takes it through a round. Deciding and swapping happen on the
event loop, reading and writing in a worker (`compaction_work`):

1. worker: map the newest offset of each key in the dirty part
2. worker: write what survives of a group of segments to `.cleaned` files, and sync them
3. worker: rename them to `.swap` and sync the directory
4. loop: rename the old segments to `.deleted` and drop the mark of the new ones, in the log's list
   and on disk, without an await in between
5. next group; then `cleaner-offset-checkpoint` says how far the log is clean

A crash before 3 leaves `.cleaned` files, which recovery removes; after it `.swap` files, which
recovery puts in place. Either way the log opens with every record that a reader may ask for. A
crash before 5 costs another round and nothing else.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from penstock.model.ids import TopicPartition
from penstock.platform.chance import Chance, SystemChance
from penstock.platform.disk import Disk
from penstock.platform.workers import Workers
from penstock.records.compression import DecompressionFailed
from penstock.records.varint import InvalidRecord
from penstock.storage import names
from penstock.storage.checkpoints import read_offsets, write_offsets
from penstock.storage.compaction_map import OffsetMap
from penstock.storage.compaction_plan import Plan, dirtiest, group_segments, round_of
from penstock.storage.compaction_work import Cancelled, CompactionWork, Pace, Uncleanable
from penstock.storage.log import Log
from penstock.storage.segment import Segment
from penstock.storage.txn_index import CorruptTxnIndex

logger = logging.getLogger(__name__)

CHECKPOINT = "cleaner-offset-checkpoint"
MEMORY_MAX = 128 << 20  # log.cleaner.dedupe.buffer.size

_UNREADABLE = (Uncleanable, InvalidRecord, DecompressionFailed, CorruptTxnIndex)
_GONE = (errno.EBADF, errno.ENOENT)  # retention or a deletion took the files under the round
_FULL = (errno.ENOSPC, errno.EDQUOT)  # the log is as it was, and compacting later may help


class Compacted(NamedTuple):
    """What a round did."""

    partition: TopicPartition
    first_dirty: int
    end: int
    """The log is clean below this offset."""
    bytes_before: int
    bytes_after: int


class Compactor:
    """Compacts the logs of a node, one at a time.

    Whoever drives the node calls `run_once` every `log.cleaner.backoff.ms`, again at once as long
    as it found something to do, and `cancel` before it stops.
    """

    def __init__(
        self,
        disk: Disk,
        workers: Workers,
        *,
        chance: Chance | None = None,
        memory_max: int = MEMORY_MAX,
        bytes_per_second_max: float = float("inf"),
    ) -> None:
        self._disk = disk
        self._workers = workers
        self._chance = chance or SystemChance()
        self._memory_max = memory_max
        self._pace = Pace(bytes_per_second_max)
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        self._work: CompactionWork | None = None
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs that were given up until the next start, and why."""

    async def run_once(self, logs: Iterable[Log], now: int) -> Compacted | None:
        """Compact the log that most wants it; None if none does, or if it was cancelled."""
        # Ten thousand logs pass here, on the event loop: what rules out nearly all comes first.
        candidates = [
            log
            for log in logs
            if log.config.cleanup_compact
            and len(log.segments) > 1
            and log.topic_partition not in self.uncleanable
        ]
        cleaned_to = {
            log.topic_partition: offset
            for log in candidates
            if (offset := self._checkpoint_of(log).get(log.topic_partition)) is not None
        }
        plan = dirtiest(candidates, cleaned_to, now)
        if plan is None:
            return None
        try:
            return await self._compact(plan, now)
        except Cancelled:
            return None
        except _UNREADABLE as error:
            logger.error("%s cannot be compacted: %s", plan.log, error)
            self.uncleanable[plan.log.topic_partition] = str(error)
        except OSError as error:
            if error.errno in _FULL:
                logger.warning("%s is not compacted, the disk is full: %s", plan.log, error)
            elif error.errno not in _GONE:
                plan.log.context.on_fault(plan.log, error)
                raise
        finally:
            self.cancel()  # if this task itself was cancelled, the worker does not know yet
            self._work = None
        return None

    def cancel(self) -> None:
        """End a round that is under way, soon; its log stays whole."""
        if self._work is not None:
            self._work.cancel()

    def forget(self, partition: TopicPartition) -> None:
        """The log was deleted: one of the same name begins dirty."""
        self.uncleanable.pop(partition, None)
        for offsets in self._checkpoints.values():
            offsets.pop(partition, None)

    async def _compact(self, plan: Plan, now: int) -> Compacted:
        log = plan.log
        span = plan.first_uncleanable - plan.first_dirty
        offsets = OffsetMap(self._memory_max, span, self._chance.uuid())
        work = self._work = CompactionWork(plan, round_of(plan, now), offsets, self._pace)
        truncations = log.truncations
        submit = self._workers.submit
        await submit(work.build_map)
        bytes_before = 0
        for group in group_segments(log, offsets.end):
            cleaned = await submit(partial(work.clean, group))
            if work.cancelled or log.truncations != truncations or not _is_current(log, group):
                await submit(partial(work.discard, cleaned))
                raise Cancelled
            await submit(partial(_announce, log, cleaned))
            if log.truncations != truncations or not _is_current(log, group):
                await submit(partial(work.discard, cleaned))
                raise Cancelled
            bytes_before += sum(segment.size for segment in group)
            log.replace_segments([cleaned], group, now)
            log.context.indexes.touch(cleaned)
        await self._checkpoint(log, offsets.end)
        written = work.bytes_written
        logger.info("compacted %s to %d: %d bytes of %d", log, offsets.end, written, bytes_before)
        return Compacted(log.topic_partition, plan.first_dirty, offsets.end, bytes_before, written)

    def _checkpoint_of(self, log: Log) -> dict[TopicPartition, int]:
        root = os.path.dirname(log.directory)
        offsets = self._checkpoints.get(root)
        if offsets is None:
            offsets = self._checkpoints[root] = read_offsets(self._disk, root, CHECKPOINT)
        return offsets

    async def _checkpoint(self, log: Log, end: int) -> None:
        offsets = self._checkpoint_of(log)
        offsets[log.topic_partition] = end
        root, snapshot = os.path.dirname(log.directory), dict(offsets)
        await self._workers.submit(partial(write_offsets, self._disk, root, CHECKPOINT, snapshot))


def _announce(log: Log, cleaned: Segment) -> None:
    """From here on a restart puts `cleaned` in the place of what it was made of.

    Durable before the old segments lose their names: if only their renaming reached the disk,
    a power cut would leave neither.
    """
    cleaned.remark(names.SWAP)
    log.context.disk.sync_directory(log.directory)


def _is_current(log: Log, segments: list[Segment]) -> bool:
    """Whether the segments are still the log's own, and sealed."""
    return not log.active.file.closed and all(
        segment in log.segments and segment.mark == "" for segment in segments
    )
