"""The `.snapshot` file: producer state in Kafka's bytes.

    version 2 (= 1) | CRC32C of the rest 4 | count 4 | entries of 46 bytes

Of each producer's last five batches only the newest is kept: after a restart an older retry is
refused as out of order, as in Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from penstock.records.checksum import crc32c

VERSION = 1
SUFFIX = ".snapshot"

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ROW = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(ValueError):
    """The file is no producer snapshot, or was torn or changed after it was written."""


class ProducerRow(NamedTuple):
    """One entry, in the order of the bytes."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def snapshot_name(offset: int) -> str:
    """The file that holds the state of everything below `offset`."""
    return f"{offset:020d}{SUFFIX}"


def encode_snapshot(rows: Iterable[ProducerRow]) -> bytes:
    body = bytearray(_COUNT.size)
    count = 0
    for row in rows:
        body += _ROW.pack(*row)
        count += 1
    _COUNT.pack_into(body, 0, count)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerRow]:
    """The entries; CorruptSnapshot if version, checksum or size do not fit."""
    start = _HEAD.size + _COUNT.size
    if len(data) < start:
        raise CorruptSnapshot(f"a producer snapshot of {len(data)} bytes: expected {start} or more")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"a producer snapshot of version {version}: expected {VERSION}")
    if crc32c(memoryview(data)[_HEAD.size :]) != crc:
        raise CorruptSnapshot("a producer snapshot whose checksum does not fit its content")
    count = _COUNT.unpack_from(data, _HEAD.size)[0]
    if count < 0 or len(data) != start + count * _ROW.size:
        raise CorruptSnapshot(f"a producer snapshot of {count} entries in {len(data)} bytes")
    return [ProducerRow(*row) for row in _ROW.iter_unpack(memoryview(data)[start:])]
