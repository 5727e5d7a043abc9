"""A step's records as batches in the shard's partition."""

from __future__ import annotations

import logging
from struct import error as StructError
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.primitives import ProtocolError
from penstock.records.builder import batch_of_moment
from penstock.replica.partition import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.coordination.effects import Effects
    from penstock.model.ids import Millis
    from penstock.protocol.record_frames import CoordinatorFrames
    from penstock.replica.partition import Partition

log = logging.getLogger("penstock.coordination")

_OVERHEAD = 64
"""More than what a record's varints and a batch's head add to keys and values."""


def append_records(
    partition: Partition, frames: CoordinatorFrames, out: Effects, now: Millis
) -> tuple[int, Refused | None]:
    """Append a step's records, in one batch or, where that is allowed, in several.

    Answers how many were taken, and why the others were not.
    """
    try:
        encoded = [record.encode(frames) for record in out.records]
    except (ProtocolError, StructError):
        # Clients' words end up in records: something too long or too large slipped through.
        log.exception("%s: a record cannot be written", partition)
        return 0, Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    bytes_max = partition.log.config.message_max_bytes
    taken = 0
    for part in _parts(encoded, bytes_max) if not out.atomic else (encoded,):
        result = partition.append_own(_batch(part, out, now), now)
        if isinstance(result, Refused):
            return taken, result
        taken += len(part)
    return taken, None


def _parts(
    encoded: list[tuple[bytes, bytes | None]], bytes_max: int
) -> Iterator[list[tuple[bytes, bytes | None]]]:
    part: list[tuple[bytes, bytes | None]] = []
    size = _OVERHEAD
    for key, value in encoded:
        more = len(key) + len(value or b"") + _OVERHEAD
        if part and size + more > bytes_max:
            yield part
            part, size = [], _OVERHEAD
        part.append((key, value))
        size += more
    if part:
        yield part


def _batch(part: list[tuple[bytes, bytes | None]], out: Effects, now: Millis) -> bytearray:
    if out.producer is None:
        return batch_of_moment(part, now)
    return batch_of_moment(
        part, now, producer_id=out.producer.id, producer_epoch=out.producer.epoch
    )
