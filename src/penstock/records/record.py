"""Records inside a batch: varints, keys, values, headers. Lazy, and bounded by the bytes at hand.

    length | attributes 1 | timestamp delta | offset delta | key length | key |
    value length | value | header count | (key length | key | value length | value)*

All numbers without a size are zig-zag varints. A length below zero means null. Every length and
count is held against the bytes that remain before anything is sliced, so that a record which
claims two gigabytes costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

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


class Record:
    """One record. `key` and `value` are views into the batch (or its decompressed form)."""

    __slots__ = ("_body", "_headers_at", "attributes", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: memoryview | None,
        value: memoryview | None,
        body: memoryview,
        headers_at: int,
        attributes: int,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.attributes = attributes
        self._body = body
        self._headers_at = headers_at

    @property
    def headers(self) -> list[Header]:
        """Keys and values in their order; read only when asked for."""
        return _read_headers(self._body, self._headers_at)

    @property
    def body(self) -> memoryview:
        """The record as it stands in the batch, without its length."""
        return self._body

    @property
    def headers_raw(self) -> memoryview:
        """Header count and headers as they stand, for whoever copies a record."""
        return self._body[self._headers_at :]

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
    base_offset = head.base_offset
    base_timestamp = head.base_timestamp
    append_time = head.max_timestamp if head.attributes & TIMESTAMP_APPEND else None
    at = 0
    for _ in range(head.count):
        size, at = read_varint(data, at)
        end = at + size
        if size < 0 or end > len(data):
            raise InvalidRecord(f"a record of {size} bytes, where {len(data) - at} remain")
        body = data[at:end]
        timestamp_delta, position = read_varint(body, 1)
        offset_delta, position = read_varint(body, position)
        key, position = _read_bytes(body, position)
        value, position = _read_bytes(body, position)
        yield Record(
            base_offset + offset_delta,
            base_timestamp + timestamp_delta if append_time is None else append_time,
            key,
            value,
            body,
            position,
            body[0],
        )
        at = end
    if at != len(data):
        raise InvalidRecord(f"{len(data) - at} bytes behind the last of {head.count} records")


def _read_bytes(body: memoryview, at: int) -> tuple[memoryview | None, int]:
    size, at = read_varint(body, at)
    if size < 0:
        return None, at
    end = at + size
    if end > len(body):
        raise InvalidRecord(f"a field of {size} bytes, where {len(body) - at} remain")
    return body[at:end], end


def _read_headers(body: memoryview, at: int) -> list[Header]:
    count, at = read_varint(body, at)
    # A header takes two bytes at the least, so the bytes that remain bound the count.
    if count < 0 or count > (len(body) - at) // 2:
        raise InvalidRecord(f"{count} headers in {len(body) - at} bytes")
    headers: list[Header] = []
    for _ in range(count):
        key, at = _read_bytes(body, at)
        if key is None:
            raise InvalidRecord("a header without a key")
        value, at = _read_bytes(body, at)
        try:
            name = str(key, "utf-8")
        except UnicodeDecodeError:
            raise InvalidRecord("a header's key is not UTF-8") from None
        headers.append((name, None if value is None else bytes(value)))
    if at != len(body):
        raise InvalidRecord(f"{len(body) - at} bytes behind the last header")
    return headers
