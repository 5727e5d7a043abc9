"""What a log says about its delayed records: control batches of Penstock's own.

Every client skips control batches, and so do Apache's replicas and tools, as long as the key has
the form that all of them have: a version and a type, 16 bits each. The types here are far above
any of Apache's. Each batch holds one record, and its value is

    version 2 | target 8 | CRC 4 | count 4 | rows | the records' bytes, where there are any

with a row of (due 8, id 8, place 8, size 4) for each delayed record. `id` is the offset that its
producer was told, `place` the offset of the batch that holds its bytes.

    parked     holds records that a producer sent with the batch that follows
    delivered  names records that the batch that follows holds again, for everybody to read
    cancelled  names records that will not be delivered
    moved      holds records anew whose old place is about to be deleted

The first two are true only if the batch at offset `target` has that CRC: what was not written
together does not count. The other two are true by themselves, and have a target of -1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.records.batch import HEAD_SIZE, Bytes
from penstock.records.builder import BatchBuilder
from penstock.records.control import KEY
from penstock.records.varint import InvalidRecord, read_varint

PARKED = 20560
DELIVERED = 20561
CANCELLED = 20562
MOVED = 20563
KINDS = range(PARKED, MOVED + 1)

VERSION = 0
NO_TARGET = -1
NO_CRC = 0

_VALUE = struct.Struct(">hqIi")
_ROW = struct.Struct(">qqqi")
ROW_SIZE = _ROW.size
VALUE_HEAD_SIZE = _VALUE.size
FRONT_MAX = HEAD_SIZE + 32 + _VALUE.size
"""Bytes from a batch's beginning within which the rows begin, at the most."""

_new = tuple.__new__


class Row(NamedTuple):
    """One delayed record."""

    due: int
    """Wall time in milliseconds at which it is to be delivered."""
    id: int
    """The offset that its producer was told, by which it is known for good."""
    place: int
    """The offset of the batch that holds its bytes."""
    size: int = 0
    """How many these are; 0 where a batch only names the record."""


RawRow = tuple[int, int, int, int]
"""A `Row`, or a plain tuple of the same."""


class Notice(NamedTuple):
    """The front of one of these batches."""

    kind: int
    target: int
    crc: int
    count: int  # type: ignore[assignment]  # hides tuple.count, unused here
    rows_at: int
    """Where in the batch the rows begin."""

    @property
    def bodies_at(self) -> int:
        """Where in the batch the records' bytes begin."""
        return self.rows_at + self.count * ROW_SIZE


def build(
    kind: int,
    rows: Sequence[Row],
    bodies: Iterable[Bytes],
    timestamp: int,
    *,
    target: int = NO_TARGET,
    crc: int = NO_CRC,
) -> bytearray:
    """A batch of one of these kinds, without its place in the log yet."""
    value = bytearray(_VALUE.pack(VERSION, target, crc, len(rows)))
    for row in rows:
        value += _ROW.pack(*row)
    for body in bodies:
        value += body
    builder = BatchBuilder(control=True)
    builder.append(KEY.pack(VERSION, kind), value, timestamp)
    return bytearray(builder.build())


def kind_of(batch: Bytes) -> int | None:
    """Which of the kinds a control batch is; None for Apache's, and for those without a record."""
    try:
        key_at = _key_at(batch)
        if key_at + KEY.size > len(batch):
            return None
        version, kind = KEY.unpack_from(batch, key_at)
    except (InvalidRecord, struct.error):
        return None
    return kind if version == VERSION and kind in KINDS else None


def _key_at(batch: Bytes) -> int:
    _, at = read_varint(batch, HEAD_SIZE)
    at += 1  # attributes
    _, at = read_varint(batch, at)  # timestamp delta
    _, at = read_varint(batch, at)  # offset delta
    size, at = read_varint(batch, at)
    if size != KEY.size:
        raise InvalidRecord(f"a control record's key has {size} bytes, not {KEY.size}")
    return at


def read_notice(batch: Bytes) -> Notice:
    """The front of a batch, of which at least FRONT_MAX bytes are given, or all.

    InvalidRecord if it is of no kind that is known here, or of a later version.
    """
    kind = kind_of(batch)
    if kind is None:
        raise InvalidRecord("no batch about delayed records")
    _, at = read_varint(batch, _key_at(batch) + KEY.size)
    try:
        version, target, crc, count = _VALUE.unpack_from(batch, at)
    except struct.error:
        raise InvalidRecord("a batch about delayed records is cut short") from None
    if version != VERSION or count < 0:
        raise InvalidRecord(f"a batch about {count} delayed records of version {version}")
    return Notice(kind, target, crc, count, at + _VALUE.size)


def read_rows(batch: Bytes, notice: Notice) -> list[Row]:
    """The rows of a batch that is given at least as far as they go."""
    return [_new(Row, row) for row in raw_rows(batch, notice)]


def raw_rows(batch: Bytes, notice: Notice) -> list[RawRow]:
    """The same without names: a start after a crash may read millions."""
    end = notice.bodies_at
    if end > len(batch):
        raise InvalidRecord(f"{notice.count} delayed records in {len(batch)} bytes")
    return list(_ROW.iter_unpack(memoryview(batch)[notice.rows_at : end]))
