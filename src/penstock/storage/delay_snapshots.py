"""Delayed records beside a log: `OFFSET.delayed` holds which of them waited below OFFSET.

    version 2 | CRC32C of the rest 4 | rows 8 | undecided rows 8 |
    all dues, all ids, all places, 8 bytes each | (producer, due, id, place) of the undecided

in little-endian, for the columns are written as they lie in memory. A log has these files if it
ever held a delayed record, and they spare the next start from reading all of it. Without a good
one, the log from its start on tells the same.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.records.batch import CONTROL, Fields
from penstock.records.checksum import crc32c
from penstock.storage import names
from penstock.storage.delay_batches import Row, kind_of
from penstock.storage.delay_index import DelayIndex
from penstock.storage.segment import base_of

if TYPE_CHECKING:
    from penstock.storage.log import Log

logger = logging.getLogger(__name__)

VERSION = 0
SAVED_SHARE = 4
"""A snapshot is written when so many times its size was appended: a restart then reads a bounded
part of the log, and little is written for it."""
SAVED_SMALL = 4096
"""Rows so few that they are written each time."""

_HEAD = struct.Struct("<hI")
_COUNTS = struct.Struct("<qq")
_UNDECIDED = struct.Struct("<qqqq")
_ROW_SIZE = 24


class CorruptSnapshot(ValueError):
    """The file is no such snapshot, or was torn or changed after it was written."""


def encode(index: DelayIndex) -> bytes:
    """What is written about an index."""
    columns = index.waiting.columns()
    undecided = [(who, row) for who, rows in index.undecided.items() for row in rows]
    body = bytearray(_COUNTS.pack(len(columns[0]), len(undecided)))
    for column in columns:
        body += _in_file_order(column)
    for who, row in undecided:
        body += _UNDECIDED.pack(who, row.due, row.id, row.place)
    return _HEAD.pack(VERSION, crc32c(body)) + bytes(body)


def decode(data: bytes) -> DelayIndex:
    """The index of a file; CorruptSnapshot if version, checksum or size do not fit."""
    start = _HEAD.size + _COUNTS.size
    if len(data) < start:
        raise CorruptSnapshot(f"{len(data)} bytes, where {start} are the least")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION or crc32c(memoryview(data)[_HEAD.size :]) != crc:
        raise CorruptSnapshot(f"its version is {version}, or its checksum does not fit")
    count, undecided = _COUNTS.unpack_from(data, _HEAD.size)
    rest = start + count * _ROW_SIZE
    if min(count, undecided) < 0 or len(data) != rest + undecided * _UNDECIDED.size:
        raise CorruptSnapshot(f"{count} and {undecided} rows in {len(data)} bytes")
    index = DelayIndex()
    size = count * 8
    with memoryview(data) as view:
        columns = [_column(view[at : at + size]) for at in range(start, rest, size or 1)]
        if columns:
            index.waiting.load(*columns)
        for who, due, id_, place in _UNDECIDED.iter_unpack(view[rest:]):
            index.undecided.setdefault(who, []).append(Row(due, id_, place))
    return index


def _in_file_order(column: array[int]) -> array[int]:
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _column(data: memoryview) -> array[int]:
    column = array("q", bytes(data))
    return _in_file_order(column)


# ── beside a log ────────────────────────────────────────────────────────────────────────────────


def begin_delays(log: Log, offset: int, batch: memoryview | bytes) -> None:
    """A control batch is about to be appended to a log that knows of no delayed records: if it is
    about some, the log has an index from here on. The file comes first, for a log without one is
    taken to have nothing that waits."""
    if kind_of(batch) is not None:
        index = DelayIndex()
        _write(log, index, offset)
        log.delays = index


def note_delays(log: Log, heads: Iterable[Fields], batches: memoryview | bytes) -> None:
    """Tell the index of batches that were appended, with their offsets in their heads; whoever
    delivers hears it if something is due earlier than all before."""
    index = log.delays
    assert index is not None
    before = index.earliest
    view = memoryview(batches)
    at = 0
    for head in heads:
        end = at + head[1] + 12
        index.note(head, head[0], view[at:end])
        at = end
    if index.earliest < before:
        log.context.on_delay(log)


def save_delays(log: Log, offset: int, *, sealed: int | None = None) -> None:
    """Write what waits below `offset`, the log's end; after sealing a segment of so many bytes,
    only if it pays."""
    index = log.delays
    if index is None:
        return
    if sealed is not None:
        index.unsaved += sealed
        waiting = len(index)
        if waiting > SAVED_SMALL and index.unsaved < waiting * _ROW_SIZE * SAVED_SHARE:
            return
    settled = index.settled_to
    _write(log, index, offset if settled is None else min(settled, offset))
    index.unsaved = 0


def _write(log: Log, index: DelayIndex, offset: int) -> None:
    log.context.disk.write_at(_path(log, offset), encode(index), 0)
    log.unsynced.names = True  # synced with those, before anything relies on it
    index.snapshots = sorted({*index.snapshots, offset})
    for old in _superfluous(log, index.snapshots):
        index.snapshots.remove(old)
        log.context.disk.remove(_path(log, old))


def _superfluous(log: Log, offsets: list[int]) -> list[int]:
    """All but the newest two, and the newest that a start after a crash could use."""
    bases = log.segments
    trusted = bases[max(bisect_left(bases, log.recovery_point, key=base_of) - 1, 0)].base
    usable = [offset for offset in offsets if offset <= trusted]
    kept = {*offsets[-2:], *usable[-1:]}
    return [offset for offset in offsets if offset not in kept]


def cut_delays(log: Log) -> None:
    """The log was cut at its end: know what it says now."""
    index = log.delays
    if index is None:
        return
    if log.end > index.changed_at and log.end >= (index.snapshots or (0,))[-1]:
        index.forget_claims(log.end)
    else:
        reload_delays(log)


def forget_delays(log: Log) -> None:
    """The log is empty: nothing waits, and no file says so."""
    if log.delays is not None:
        for offset in log.delays.snapshots:
            log.context.disk.remove(_path(log, offset))
        log.delays = None


def reload_delays(log: Log, *, snapshot_max: int | None = None) -> None:
    """Rebuild the index from the newest good snapshot, and what was appended after it.

    Snapshots above the end describe what was cut off, and go. So do those above `snapshot_max`:
    nobody vouches for them, now or later.
    """
    offsets = _offsets(log)
    newest = log.end if snapshot_max is None else min(snapshot_max, log.end)
    for offset in [each for each in offsets if each > newest]:
        log.context.disk.remove(_path(log, offset))
        offsets.remove(offset)
    index, offset = _load_newest(log, offsets)
    index.hold(log.start, offset)
    _read_on(log, index, max(offset, log.start))
    index.drop_below(log.start)
    index.snapshots = _offsets(log)
    if not index.snapshots and (index.changed_at >= 0 or index.settled_to is not None):
        # A log without a file is taken never to have had any, as soon as it is synced.
        _write(log, DelayIndex(), log.start)
        index.snapshots = [log.start]
    log.delays = index if index.snapshots else None


def _offsets(log: Log) -> list[int]:
    found = []
    for name in log.context.disk.listdir(log.directory):
        offset = names.offset_of(name) if name.endswith(names.DELAYED) else None
        if offset is not None:
            found.append(offset)
    return sorted(found)


def _load_newest(log: Log, offsets: list[int]) -> tuple[DelayIndex, int]:
    for offset in reversed(offsets):
        path = _path(log, offset)
        try:
            return decode(log.context.disk.read_bytes(path)), offset
        except CorruptSnapshot as error:
            logger.warning("dropping %s: %s", path, error)
            log.context.disk.remove(path)
    return DelayIndex(), log.start


def _read_on(log: Log, index: DelayIndex, offset: int) -> None:
    """Note every batch from `offset` on, by heads: only control batches are read whole."""
    segments = log.segments
    first = max(bisect_right(segments, offset, key=base_of) - 1, 0)
    for segment in segments[first:] if offset < log.end else ():
        position = 0
        if offset > segment.base:
            log.use_index(segment)
            position = segment.position_of(offset)
        for at, head in segment.heads(position):
            is_control = head.attributes & CONTROL
            data = segment.file.pread(head.size, at) if is_control else b""
            if head.base_offset >= offset:  # the log may start within a batch
                index.note(head, head.base_offset, data)


def _path(log: Log, offset: int) -> str:
    return os.path.join(log.directory, names.stem(offset) + names.DELAYED)
