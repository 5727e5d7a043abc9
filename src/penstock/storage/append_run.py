"""Appending batches that already have their offsets: as a leader sent them, or as Raft made them.

A follower takes a megabyte at a time. Its batches are checked one by one, and as many as fit into
the active segment are written with one call: the system call and what surrounds it would cost more
than everything else that is done for a small batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.records.batch import (
    ATTRIBUTES_OFFSET,
    CONTROL,
    HEAD,
    HEAD_SIZE,
    MAGIC,
    PREFIX_SIZE,
    Fields,
)
from penstock.records.checksum import crc32c
from penstock.storage.segment import LENGTH_MIN, RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from penstock.storage.log import Log

EPOCH_MAX = 2**31 - 1


class CorruptBatch(ValueError):
    """Bytes that were to be appended are no valid batches in offset order."""


def append_batches(log: Log, data: bytes | bytearray | memoryview, now: int, epoch_max: int) -> int:
    """Append what is whole of `data`; the log's new end.

    A batch that is cut at the end is left out, as fetches cut them, and so is everything from the
    first batch of an epoch above `epoch_max` on: the leader had no right to send it. CorruptBatch
    at the first batch that is none, or that goes back: those before it stay.
    """
    view = memoryview(data)
    at, size = 0, len(view)
    while at < size:
        heads, end, problem = _check_run(log, view, at, epoch_max)
        if len(heads) == 1:
            head = heads[0]
            log.append(view[at:end], head, head[0], head[2], now)
        elif heads:
            log.append_run([view[at:end]], heads)
        elif problem is not None:
            raise CorruptBatch(problem)
        else:
            break
        at = end
    return log.end


def _check_run(
    log: Log, view: memoryview, start: int, epoch_max: int
) -> tuple[list[Fields], int, str | None]:
    """The heads of the batches from `start` on that can be written together, where they end, and
    what is wrong with the batch behind them, if that is why they end there.

    The first one is taken as it is: if it needs a new segment, or is a control batch, it is written
    alone.
    """
    segment, size_max = log.active, log.config.segment_bytes
    base, roll_at = segment.base, segment.roll_at
    room = size_max - segment.file.size + start
    expected = log.end
    heads: list[Fields] = []
    size = len(view)
    at = start
    while at + HEAD_SIZE <= size:
        head: Fields = HEAD.unpack_from(view, at)
        offset, length, epoch, magic, crc, attributes, delta, _, timestamp, _, _, _, _ = head
        if length < LENGTH_MIN or magic != MAGIC or delta < 0:
            return heads, at, f"no batch at byte {at} of {size}"
        after = at + length + PREFIX_SIZE
        if after > size or epoch > epoch_max:
            break
        if crc32c(view[at + ATTRIBUTES_OFFSET : after]) != crc:
            return heads, at, f"the batch at offset {offset} fails its checksum"
        if offset < expected:
            return heads, at, f"a batch at {offset}, where {expected} is next"
        last = offset + delta
        if (
            after > room
            or timestamp > roll_at
            or last - base > RELATIVE_OFFSET_MAX
            or attributes & CONTROL
        ):
            return (heads, at, None) if heads else ([head], after, None)
        heads.append(head)
        expected = last + 1
        at = after
    return heads, at, None
