"""Which records of a slice are too old to be delivered: on topics with a time to live.

Only there are batches opened, and only those that somebody is about to get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.delivery.effects import Span
from penstock.model.ttl import TTL_MS, expiry_of
from penstock.records.batch import COMPRESSION_MASK, BatchHead, read_head
from penstock.records.record import iterate

if TYPE_CHECKING:
    from penstock.server.share_spans import Batches
    from penstock.storage.log_slice import LogSlice

_MARK = TTL_MS.encode()


def expired_in(found: LogSlice, batches: Batches, now: int) -> list[Span]:
    """The offsets of records whose time is over, in order; of batches that are not hidden."""
    expired: list[Span] = []
    hidden = set(batches.hidden)
    at = 0
    for span, end in zip(batches.spans, batches.ends, strict=True):
        if span not in hidden:
            data = found.file.pread(end - at, found.position + at)
            for offset in _expired(memoryview(data), now):
                if expired and expired[-1].last == offset - 1:
                    expired[-1] = Span(expired[-1].first, offset)
                else:
                    expired.append(Span(offset, offset))
        at = end
    return expired


def _expired(batch: memoryview, now: int) -> list[int]:
    head = read_head(batch)
    if not _may_have(batch, head):
        return []
    try:
        return [
            record.offset
            for record in iterate(batch, 0, head=head)
            if _MARK in bytes(record.headers_raw)
            and (expiry := expiry_of(record.headers, record.timestamp)) is not None
            and expiry <= now
        ]
    except ValueError:
        return []  # nobody looked inside before: whoever gets the batch hears what is wrong with it


def _may_have(batch: memoryview, head: BatchHead) -> bool:
    """Whether any record of a batch can have expired; cheap to tell if it is not compressed."""
    return bool(head.attributes & COMPRESSION_MASK) or _MARK in bytes(batch)
