"""Which transactions in a stretch of a log were aborted, from the segments' transaction indexes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from penstock.records.batch import read_head
from penstock.records.control import read_marker
from penstock.storage import names
from penstock.storage.segment import Segment, base_of
from penstock.storage.txn_index import (
    ENTRY_SIZE,
    AbortedTxn,
    aborted_between,
    encode_entry,
    size_below,
)

if TYPE_CHECKING:
    from penstock.storage.log import Log
    from penstock.storage.log_slice import LogSlice
    from penstock.storage.producers import CompletedTxn


def aborted_in(log: Log, start: int, end: int) -> list[AbortedTxn]:
    """Aborted transactions with records in [start, end), by the order of their markers."""
    found: list[AbortedTxn] = []
    if not log.has_aborted:
        return found
    segments = log.segments
    disk = log.context.disk
    first = max(bisect_right(segments, start, key=base_of) - 1, 0)
    for segment in segments[first:]:
        path = segment.path(names.TXN_INDEX)
        if not disk.exists(path):
            continue
        here, complete = aborted_between(disk.read_bytes(path), start, end)
        found += here
        if complete:
            break
    return found


def end_of_slice(log: Log, offset: int, found: LogSlice) -> int:
    """An offset above all in a slice that was read from `offset`, and not far above.

    Without looking at the slice's batches: a reader who is far behind would otherwise be told of
    all that was aborted since, again with each fetch.
    """
    segments = log.segments
    number = bisect_right(segments, offset, key=base_of) - 1
    while segments[number].file is not found.file:
        number += 1  # compaction took the rest of the segments before
        if number == len(segments):
            return log.end  # compaction has replaced it meanwhile
    segment = segments[number]
    log.use_index(segment)
    entry = bisect_left(segment.index.positions, found.position + found.size)
    if entry < len(segment.index.positions):
        return segment.base + segment.index.offsets[entry]
    return segments[number + 1].base if number + 1 < len(segments) else log.end


def note_aborted(log: Log, txn: CompletedTxn) -> None:
    """Enter an aborted transaction into the index of the segment that holds its marker."""
    at = bisect_right(log.segments, txn.last_offset, key=base_of) - 1
    _enter(log, log.segments[at], txn)


def note_ahead(log: Log, segment: Segment, marker: memoryview | bytes) -> int:
    """Enter what a marker is about to abort, before it is in the log.

    Afterwards would be too late: a disk that takes the marker and not the entry would have readers
    take aborted records for committed ones. Answers the size of the index as it was, which
    `take_back` wants, or -1 if the marker aborts nothing.
    """
    head = read_head(marker)
    decided = read_marker(marker, 0, head)
    if decided is None or decided.is_commit:
        return -1
    txn = log.producers.about_to_abort(head.producer_id, head.base_offset)
    return -1 if txn is None else _enter(log, segment, txn)


def take_back(log: Log, segment: Segment, size: int) -> None:
    """The marker did not get into the log: nor may its entry stay in the index."""
    try:
        log.context.disk.write_at(segment.path(names.TXN_INDEX), b"", size)
    except OSError as error:
        log.context.on_fault(log, error)


def truncate_index(log: Log, segment: Segment, offset: int) -> None:
    """Forget the transactions of a segment that ended at `offset` or above."""
    path, disk = segment.path(names.TXN_INDEX), log.context.disk
    if disk.exists(path):
        disk.write_at(path, b"", size_below(disk.read_bytes(path), offset))


def _enter(log: Log, segment: Segment, txn: CompletedTxn) -> int:
    path, disk = segment.path(names.TXN_INDEX), log.context.disk
    size = disk.size_of(path) if disk.exists(path) else 0
    size -= size % ENTRY_SIZE  # an entry that was cut short is none
    entry = AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
    disk.write_at(path, encode_entry(entry), size)
    log.has_aborted = True
    return size
