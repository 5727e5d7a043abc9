"""One round of compaction over one log: who does what, in which order.

Deciding and swapping happen on the event loop, reading and writing in a worker:

1. worker: map the newest offset of each key in the dirty part
2. worker: write what survives of a group of segments to `.cleaned` files, and sync them
3. worker: rename them to `.swap` and sync the directory
4. loop: rename the old segments to `.deleted` and drop the mark of the new ones, in the log's list
   and on disk, without an await in between
5. next group

A crash before 3 leaves `.cleaned` files, which recovery removes; after it `.swap` files, which
recovery puts in place. Either way the log opens with every record that a reader may ask for.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

from penstock.model.ids import TopicPartition
from penstock.platform.workers import Workers
from penstock.records.compression import DecompressionFailed
from penstock.records.varint import InvalidRecord
from penstock.storage import names
from penstock.storage.compaction_plan import group_segments
from penstock.storage.compaction_work import Cancelled, CompactionWork, Uncleanable
from penstock.storage.log import Log
from penstock.storage.segment import Segment
from penstock.storage.txn_index import CorruptTxnIndex

logger = logging.getLogger(__name__)

UNREADABLE = (Uncleanable, InvalidRecord, DecompressionFailed, CorruptTxnIndex)
"""What says that a log cannot be compacted as it is."""


class Compacted(NamedTuple):
    """What a round did."""

    partition: TopicPartition
    first_dirty: int
    end: int
    """The log is clean below this offset."""
    bytes_before: int
    bytes_after: int


async def compact(work: CompactionWork, workers: Workers, now: int) -> Compacted:
    """Take a log through a round. Cancelled if the log changes under it in a way that matters."""
    log, submit = work.plan.log, workers.submit
    truncations = log.truncations
    await submit(work.build_map)
    bytes_before = 0
    for group in group_segments(log, work.offsets.end):
        cleaned = await submit(partial(work.clean, group))
        if not work.cancelled and _is_current(log, group, truncations):
            await submit(partial(_announce, log, cleaned))
        if work.cancelled or not _is_current(log, group, truncations):
            await submit(partial(work.discard, cleaned))
            raise Cancelled
        bytes_before += sum(segment.size for segment in group)
        log.replace_segments([cleaned], group, now)
        log.context.indexes.touch(cleaned)
    end, written = work.offsets.end, work.bytes_written
    logger.info("compacted %s to %d: %d bytes of %d", log, end, written, bytes_before)
    return Compacted(log.topic_partition, work.plan.first_dirty, end, bytes_before, written)


def _announce(log: Log, cleaned: Segment) -> None:
    """From here on a restart puts `cleaned` in the place of what it was made of.

    Durable before the old segments lose their names: if only their renaming reached the disk,
    a power cut would leave neither.
    """
    cleaned.remark(names.SWAP)
    log.context.disk.sync_directory(log.directory)


def _is_current(log: Log, segments: list[Segment], truncations: int) -> bool:
    """Whether the segments are still the log's own, and hold what they held."""
    return (
        not log.active.file.closed
        and log.truncations == truncations
        and all(segment in log.segments and segment.mark == "" for segment in segments)
    )
