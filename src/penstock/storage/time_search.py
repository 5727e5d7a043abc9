"""Finding records by time, for ListOffsets: down to the one record, inside the one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.records.batch import BatchHead
from penstock.records.record import Record, iterate
from penstock.storage.segment import UNKNOWN, Segment

if TYPE_CHECKING:
    from penstock.storage.log import Log


class FoundOffset(NamedTuple):
    """A record's place in time and in the log."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_first_since(log: Log, timestamp: int) -> FoundOffset | None:
    """The first record, in offset order, that is as young as `timestamp` or younger."""
    for segment in log.segments:
        if _max_timestamp(segment) < timestamp:
            continue
        log.use_index(segment)
        before = segment.index.offset_before_time(timestamp) + segment.base
        position = segment.position_of(max(before, log.start))
        for head, data in segment.batches(position, segment.size):
            if head.max_timestamp < timestamp:
                continue
            for record in iterate(data, head=head):
                if record.timestamp >= timestamp and record.offset >= log.start:
                    return _found(record, head)
    return None


def find_youngest(log: Log) -> FoundOffset | None:
    """The first of the records with the highest timestamp in the log."""
    youngest = max(log.segments, key=_max_timestamp)
    timestamp = _max_timestamp(youngest)
    if timestamp < 0:
        return None
    log.use_index(youngest)
    position = youngest.position_of(youngest.max_timestamp_offset)
    for head, data in youngest.batches(position, youngest.size):
        if head.max_timestamp == timestamp:
            for record in iterate(data, head=head):
                if record.timestamp == timestamp:
                    return _found(record, head)
            if not head.count:  # all its records wait for their time, or were compacted away
                return FoundOffset(timestamp, head.last_offset, head.leader_epoch)
    return None


def _max_timestamp(segment: Segment) -> int:
    if segment.max_timestamp == UNKNOWN:
        segment.load_max_timestamp()
    return segment.max_timestamp


def _found(record: Record, head: BatchHead) -> FoundOffset:
    return FoundOffset(record.timestamp, record.offset, head.leader_epoch)
