"""Batches that producers sent together, put into a partition's log with one write.

A write costs the more the smaller it is: the file system looks for room, and the page cache for
pages, once for each. So what one read brought for one partition is written at once, if no batch of
it raises a question. If any does, all of them go the ordinary way, one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.records.batch import CONTROL, TRANSACTIONAL, Fields, check_fields, place
from penstock.replica.outcomes import Appended, Refused
from penstock.replica.transactions import NOT_TRANSACTIONAL, Unverified
from penstock.storage.producers import SEQUENCE_MASK
from penstock.storage.segment import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from penstock.replica.partition import Partition


def append_run(
    partition: Partition, batches: list[memoryview], now: int
) -> list[Appended | Refused | Unverified]:
    """Append batches of producers without transactions, as the leader, in this order.

    What becomes of each is what would become of it if they came one by one, but that they share
    what the disk does: all are refused if it takes not all of them, and with `flush.messages` all
    wait for the sync that the last of them asks for.
    """
    heads = _heads(partition, batches, now) if len(batches) > 1 and not partition.offline else None
    if heads is None:
        return [_append(partition, batch, now) for batch in batches]
    log = partition.log
    for batch, head in zip(batches, heads, strict=True):
        place(batch, head[0], head[2])
    try:
        log.append_run(batches, heads)
    except OSError as problem:
        why = f"The batches were not written: {problem}"
        return [Refused(ErrorCode.KAFKA_STORAGE_ERROR, why)] * len(heads)
    partition.count_appended(sum(map(len, batches)))
    start = log.start
    return [Appended(head[0], head[0] + head[6] + 1, -1, start) for head in heads]


def _append(partition: Partition, batch: memoryview, now: int) -> Appended | Refused | Unverified:
    if partition.offline:  # by one of those before it, maybe
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
    return partition.append(batch, now, NOT_TRANSACTIONAL)


def may_run(partition: Partition) -> bool:
    """Whether batches for it can be written together at all: not where each is looked into."""
    return partition.by_head and partition.log.delays is None


def _heads(partition: Partition, batches: list[memoryview], now: int) -> list[Fields] | None:
    """Their heads with the offsets that they get; None if any of them needs a closer look, or not
    all of them fit into the active segment."""
    log = partition.log
    if not partition.leading or not may_run(partition):
        return None
    config, segment, producers = log.config, log.active, log.producers
    base, epoch, size = log.end, partition.leader_epoch, segment.file.size
    time_max = min(now + config.timestamp_after_max_ms, segment.roll_at)
    expected: dict[int, tuple[int, int]] = {}  # a producer's epoch and its next sequence
    heads: list[Fields] = []
    for batch in batches:
        head = check_fields(batch, 0, len(batch), config.message_max_bytes)
        if isinstance(head, ErrorCode):
            return None
        _, _, _, _, _, attributes, delta, _, youngest, producer, of, at, _ = head
        if attributes & (TRANSACTIONAL | CONTROL) or youngest > time_max:
            return None
        if producer >= 0:
            after = (at + delta) & SEQUENCE_MASK
            known = expected.get(producer)
            if known is None:
                if producers.check(producer, of, at, after) is not None:
                    return None
            elif known != (of, at):
                return None
            expected[producer] = (of, (after + 1) & SEQUENCE_MASK)
        heads.append((base, head[1], epoch, *head[3:]))
        base += delta + 1
        size += len(batch)
    if (
        size > config.segment_bytes
        or base - 1 - segment.base > RELATIVE_OFFSET_MAX
        or not segment.index_loaded
        or segment.index.is_full(config.segment_index_bytes, len(batches))
    ):
        return None
    return heads
