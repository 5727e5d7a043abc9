"""Records inside a batch: varints, keys, values, headers. Lazy, and bounded by the bytes at hand.

    length | attributes 1 | timestamp delta | offset delta | key length | key |
    value length | value | header count | (key length | key | value length | value)*

All numbers without a size are zig-zag varints. A length below zero means null. Every length and
count is held against the bytes that remain before anything is sliced, so that a record which
claims two gigabytes costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.records.batch import (
    HEAD_SIZE,
    PREFIX_SIZE,
    TIMESTAMP_APPEND,
    BatchHead,
    Bytes,
    read_head,
)
from penstock.records.compression import NONE, SIZE_MAX, decompress
from penstock.records.varint import InvalidRecord, read_varint

Header = tuple[str, bytes | None]

_new = tuple.__new__


class Record(NamedTuple):
    """One record. `key` and `value` are views into the batch (or its decompressed form)."""

    offset: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None
    data: memoryview
    """All records of the batch, of which this one ends at `end`."""
    headers_at: int
    end: int

    @property
    def headers(self) -> list[Header]:
        """Keys and values in their order; read only when asked for."""
        return _read_headers(self.data, self.headers_at, self.end)

    @property
    def headers_raw(self) -> memoryview:
        """Header count and headers as they stand, for whoever copies a record."""
        return self.data[self.headers_at : self.end]

    def __repr__(self) -> str:
        key = None if self.key is None else bytes(self.key)
        value = None if self.value is None else bytes(self.value)
        return f"Record(offset={self.offset}, timestamp={self.timestamp}, {key=}, {value=})"


def iterate(
    batch: Bytes, at: int = 0, size_max: int = SIZE_MAX, head: BatchHead | None = None
) -> Iterator[Record]:
    """The records of the batch at `at`, decompressed to at most `size_max` bytes.

    Raises InvalidRecord, or `compression.DecompressionFailed` (a ValueError too), where the bytes
    are not what the head promises.
    """
    if head is None:
        head = read_head(batch, at)
    end = at + PREFIX_SIZE + head.length
    data = memoryview(batch)[at + HEAD_SIZE : end]
    if len(data) != head.length + PREFIX_SIZE - HEAD_SIZE:
        raise InvalidRecord("the batch is cut short")
    codec = head.attributes & 7
    if codec != NONE:
        data = decompress(codec, data, size_max)
    return _records(head, data)


def _records(head: BatchHead, data: memoryview) -> Iterator[Record]:
    """The loop over a batch, written out: a call for each number would double its time."""
    base_offset = head.base_offset
    base_timestamp = head.base_timestamp
    append_time = head.max_timestamp if head.attributes & TIMESTAMP_APPEND else None
    size = len(data)
    at = 0
    try:
        for _ in range(head.count):
            length, at = read_varint(data, at)
            end = at + length
            if length < 0 or end > size:
                raise InvalidRecord(f"a record of {length} bytes, where {size - at} remain")
            at += 1  # attributes: none are defined
            timestamp = data[at]
            if timestamp < 0x80:
                timestamp = timestamp >> 1 ^ -(timestamp & 1)
                at += 1
            else:
                timestamp, at = read_varint(data, at)
            offset = data[at]
            if offset < 0x80:
                offset = offset >> 1 ^ -(offset & 1)
                at += 1
            else:
                offset, at = read_varint(data, at)
            length = data[at]
            if length < 0x80:
                length = length >> 1 ^ -(length & 1)
                at += 1
            else:
                length, at = read_varint(data, at)
            key = None
            if length >= 0:
                key = data[at : at + length]
                at += length
            length = data[at]
            if length < 0x80:
                length = length >> 1 ^ -(length & 1)
                at += 1
            else:
                length, at = read_varint(data, at)
            value = None
            if length >= 0:
                value = data[at : at + length]
                at += length
            if at >= end:  # the header count takes a byte at least; slices never pass the data
                raise InvalidRecord(f"a record's fields pass its end by {at + 1 - end} bytes")
            timestamp = base_timestamp + timestamp if append_time is None else append_time
            yield _new(Record, (base_offset + offset, timestamp, key, value, data, at, end))
            at = end
    except IndexError:
        raise InvalidRecord("a number runs past the end of the batch") from None
    if at != size:
        raise InvalidRecord(f"{size - at} bytes behind the last of {head.count} records")


def _read_bytes(data: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise InvalidRecord(f"a field of {size} bytes, where {end - at} remain")
    return data[at : at + size], at + size


def _read_headers(data: memoryview, at: int, end: int) -> list[Header]:
    count, at = read_varint(data, at)
    # A header takes two bytes at the least, so the bytes that remain bound the count.
    if count < 0 or count > (end - at) // 2:
        raise InvalidRecord(f"{count} headers in {end - at} bytes")
    headers: list[Header] = []
    for _ in range(count):
        key, at = _read_bytes(data, at, end)
        if key is None:
            raise InvalidRecord("a header without a key")
        value, at = _read_bytes(data, at, end)
        try:
            name = str(key, "utf-8")
        except UnicodeDecodeError:
            raise InvalidRecord("a header's key is not UTF-8") from None
        headers.append((name, None if value is None else bytes(value)))
    if at != end:
        raise InvalidRecord(f"{end - at} bytes behind the last header")
    return headers
