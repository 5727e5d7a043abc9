"""What a leader writes about delayed records: that they are delivered, cancelled or moved."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.records.batch import (
    COVERED,
    HEAD_SIZE,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PREFIX_SIZE,
    TIMESTAMP_APPEND,
    UNCOVERED,
)
from penstock.records.checksum import crc32c
from penstock.records.compression import CODEC_NAMES, compress
from penstock.records.varint import varint
from penstock.replica.outcomes import Appended, Refused
from penstock.storage.delay_batches import CANCELLED, DELIVERED, MOVED, Row, build
from penstock.storage.delay_reading import Parked

if TYPE_CHECKING:
    from penstock.replica.partition import Partition
    from penstock.storage.log_config import LogConfig

logger = logging.getLogger("penstock.replica")

_START = b"\x00\x00"  # no attributes, and as old as the batch
_LEVELS = {"gzip": "gzip_level", "lz4": "lz4_level", "zstd": "zstd_level"}


def deliver(partition: Partition, parked: Sequence[Parked], now: int) -> Appended | Refused | None:
    """Append records whose time has come, and that they are delivered with it.

    What was cancelled or deleted since it was read is left out; None if nothing remains.
    """
    refused = partition.may_append_own()
    if refused is not None:
        return refused
    there = still_waiting(partition, parked)
    lost = [each.row for each in there if each.body is None]
    if lost:
        # The index says that they wait and the log does not have them: no retry will find them.
        logger.error("%s: %d delayed records are lost: %s", partition, len(lost), lost[:5])
        return cancel(partition, lost, now)
    if not there:
        return None
    config = partition.log.config
    batch = _batch([each.body or b"" for each in there], config, now)
    crc = int.from_bytes(batch[17:21], "big")
    target = partition.log.end + 1
    notice = build(DELIVERED, [each.row for each in there], (), now, target=target, crc=crc)
    append_time = now if config.timestamp_append else -1
    return partition.append_together([notice, batch], now, append_time)


def cancel(partition: Partition, rows: Sequence[Row], now: int) -> Appended | Refused:
    """Append that these will not be delivered, however small a producer's batches have to be."""
    refused = partition.may_append_own()
    return refused or partition.append_together([build(CANCELLED, rows, (), now)], now)


def move(partition: Partition, parked: Sequence[Parked], now: int) -> Appended | Refused | None:
    """Append records anew, whose place in the log is about to be deleted."""
    there = [each for each in still_waiting(partition, parked) if each.body is not None]
    if not there:
        return None
    bodies = [each.body or b"" for each in there]
    rows = [each.row._replace(size=len(body)) for each, body in zip(there, bodies, strict=True)]
    refused = partition.may_append_own()
    return refused or partition.append_together([build(MOVED, rows, bodies, now)], now)


def still_waiting(partition: Partition, parked: Sequence[Parked]) -> list[Parked]:
    """Those that are where they were read."""
    delays = partition.log.delays
    if delays is None:
        return []
    return [each for each in parked if (each.row.due, each.row.id) in delays.waiting]


def _batch(bodies: list[bytes], config: LogConfig, now: int) -> bytearray:
    """A batch of records that are all as old as this moment."""
    parts = []
    for number, body in enumerate(bodies):
        front = _START + varint(number)
        parts.append(varint(len(front) + len(body)) + front + body)
    data = b"".join(parts)
    attributes = TIMESTAMP_APPEND if config.timestamp_append else 0
    if config.compression_type in CODEC_NAMES:
        codec = CODEC_NAMES.index(config.compression_type)
        level = _LEVELS.get(config.compression_type)
        data = compress(codec, data, getattr(config, level) if level else None)
        attributes |= codec
    covered = COVERED.pack(
        attributes,
        len(bodies) - 1,
        now,
        now,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        len(bodies),
    )
    crc = crc32c(data, crc32c(covered))
    length = HEAD_SIZE - PREFIX_SIZE + len(data)
    return bytearray(UNCOVERED.pack(0, length, -1, MAGIC, crc) + covered + data)
