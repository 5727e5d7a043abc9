"""Compaction: keep the newest record of every key, in the background.

    compaction          which log is next, and how far each is clean (this file)
    compaction_plan     how dirty a log is, and what a round may touch
    compaction_round    the steps of a round, and what a crash leaves of each
    compaction_work     what workers read and write
    compaction_filter   which records survive
    compaction_map      the newest offset of each key

How far a log is clean is kept in `cleaner-offset-checkpoint`, a file in each log directory. A crash
between a round and its checkpoint costs another round and nothing else.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.model.ids import TopicPartition
from penstock.platform.chance import Chance, SystemChance
from penstock.platform.disk import Disk
from penstock.platform.workers import Workers
from penstock.storage.checkpoints import read_offsets, write_offsets
from penstock.storage.log import Log

if TYPE_CHECKING:
    from penstock.storage.compaction_round import Compacted
    from penstock.storage.compaction_work import CompactionWork

logger = logging.getLogger(__name__)

CHECKPOINT = "cleaner-offset-checkpoint"
MEMORY_MAX = 128 << 20  # log.cleaner.dedupe.buffer.size

_GONE = (errno.EBADF, errno.ENOENT)  # retention or a deletion took the files under the round
_FULL = (errno.ENOSPC, errno.EDQUOT)  # the log is as it was, and compacting later may help


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
        self._bytes_per_second_max = bytes_per_second_max
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
            # Which delayed records were delivered is told by batches next to each other.
            and log.delays is None
            and log.topic_partition not in self.uncleanable
        ]
        return await self._compact_dirtiest(candidates, now) if candidates else None

    def cancel(self) -> None:
        """End a round that is under way, soon; its log stays whole."""
        if self._work is not None:
            self._work.cancel()

    def forget(self, partition: TopicPartition) -> None:
        """The log was deleted: one of the same name begins dirty."""
        self.uncleanable.pop(partition, None)
        for offsets in self._checkpoints.values():
            offsets.pop(partition, None)

    async def _compact_dirtiest(self, logs: list[Log], now: int) -> Compacted | None:
        # Imported here: a node has nothing to compact when it starts, and must start fast.
        from penstock.storage.compaction_plan import dirtiest
        from penstock.storage.compaction_round import UNREADABLE, compact
        from penstock.storage.compaction_work import Cancelled, CompactionWork

        plan = dirtiest(logs, self._cleaned_to(logs), now)
        if plan is None:
            return None
        log = plan.log
        self._work = CompactionWork(
            plan, now, self._memory_max, self._chance.uuid(), self._bytes_per_second_max
        )
        try:
            done = await compact(self._work, self._workers, now)
            await self._checkpoint(log, done.end)
            return done
        except Cancelled:
            return None
        except UNREADABLE as error:
            logger.error("%s cannot be compacted: %s", log, error)
            self.uncleanable[log.topic_partition] = str(error)
            return None
        except OSError as error:
            if error.errno in _FULL:
                logger.warning("%s is not compacted, the disk is full: %s", log, error)
            elif error.errno not in _GONE:
                log.context.on_fault(log, error)
                raise
            return None
        finally:
            self.cancel()  # if this task itself was cancelled, the worker does not know yet
            self._work = None

    def _cleaned_to(self, logs: list[Log]) -> dict[TopicPartition, int]:
        return {
            log.topic_partition: offset
            for log in logs
            if (offset := self._checkpoint_of(log).get(log.topic_partition)) is not None
        }

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
