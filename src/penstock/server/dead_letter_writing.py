"""Records as dead letters: picked from a slice of their log, and packed into batches. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.coordination.delivery.effects import DeadLetter, Reason
from penstock.model import dead_letters as names
from penstock.records.batch import CONTROL, HEAD_SIZE, PREFIX_SIZE, read_head
from penstock.records.builder import BatchBuilder
from penstock.records.record import Header, Record, iterate

PICKED_BYTES_MAX = 8 * 1024 * 1024
"""Decompressed bytes after which no further batch of a slice is opened."""

GONE_MAX = 10_000
"""Offsets without a record that are dealt with at a time: after compaction a batch may span
millions of them."""

_RECORD_OVERHEAD = 40
"""More than a record's own numbers take."""
_HEADER_OVERHEAD = 10

_WORDS = {
    Reason.REJECTED: (names.REJECTED, "A member of the group rejected the record."),
    Reason.DELIVERIES: (names.DELIVERIES, "The record was delivered as often as the group allows."),
    Reason.EXPIRED: (names.EXPIRED, "The record's time to live was over before it was taken."),
}


class Origin(NamedTuple):
    """Whose the records were, and where they stand."""

    group_id: str
    topic: str
    partition: int


class Found(NamedTuple):
    """A record, or (None) an offset whose record is not there any more or cannot be read."""

    offset: int
    record: Record | None


def gone(first: int, last: int) -> tuple[list[Found], int]:
    """Letters for offsets whose records were deleted, some at a time, and where to go on."""
    after = min(last + 1, first + GONE_MAX)
    return [Found(offset, None) for offset in range(first, after)], after


def pick(data: memoryview, first: int, last: int) -> tuple[list[Found], int]:
    """The records of a slice from `first` to `last`, and the offset where to go on. Raises OSError.

    Gaps hold no record (markers, compaction): there was nothing to deliver, and there is no letter.
    """
    found: list[Found] = []
    at, next_offset, opened = 0, first, 0
    while at + HEAD_SIZE <= len(data) and next_offset <= last and opened < PICKED_BYTES_MAX:
        head = read_head(data, at)
        end = at + PREFIX_SIZE + head.length
        if end > len(data):
            break  # cut where the slice ends
        after = head.base_offset + head.last_offset_delta + 1
        if after > next_offset and not head.attributes & CONTROL:
            here, size = _records_in(data[at:end], next_offset, min(last, after - 1))
            found += here
            opened += size
        next_offset = max(next_offset, after)
        at = end
    if at == 0:
        raise OSError(f"there is no whole batch at offset {first}")
    return found, next_offset


def _records_in(batch: memoryview, first: int, last: int) -> tuple[list[Found], int]:
    """Those of one batch, and the bytes that it has when it is opened."""
    found: list[Found] = []
    size = 0
    try:
        for record in iterate(batch):
            size = len(record.data)
            if first <= record.offset <= last:
                found.append(Found(record.offset, record))
    except ValueError:
        # It was delivered, and nobody could read it. Its letter still says where it is.
        read = {it.offset for it in found}
        found += [it for it in gone(first, last)[0] if it.offset not in read]
    return found, size


def pack(
    found: Sequence[Found],
    letter: DeadLetter,
    origin: Origin,
    *,
    copies: bool,
    now: int,
    bytes_max: int,
) -> Iterator[bytes]:
    """Batches of letters, none larger than `bytes_max` if that is possible at all.

    A record that is too large with what its letter says in addition comes with headers alone.
    """
    builder = BatchBuilder()
    for offset, record in found:
        told = _told(letter, origin, offset, now)
        key, value, headers = _copied(record, told) if copies and record else (None, None, None)
        if headers is None or _size(key, value, headers) + HEAD_SIZE > bytes_max:
            key = value = None
            headers = [*told, (names.COPIED, b"false")]
        if builder.count and builder.size + _size(key, value, headers) > bytes_max:
            yield builder.build()
            builder = BatchBuilder()
        builder.append(key, value, now, headers)
    if builder.count:
        yield builder.build()


def _told(letter: DeadLetter, origin: Origin, offset: int, now: int) -> list[Header]:
    """What went wrong, as headers."""
    word, sentence = _WORDS[letter.reason]
    told = (
        (names.TOPIC, origin.topic),
        (names.PARTITION, str(origin.partition)),
        (names.OFFSET, str(offset)),
        (names.GROUP, origin.group_id),
        (names.DELIVERY_COUNT, str(letter.count)),
        (names.MESSAGE, sentence),
        (names.REASON, word),
        (names.TIME, str(now)),
    )
    return [(name, text.encode()) for name, text in told]


def _copied(
    record: Record, told: list[Header]
) -> tuple[memoryview | None, memoryview | None, list[Header] | None]:
    """A record with its own headers and those that tell of its death, of which it may have some
    from an earlier one. Without headers: they cannot be read."""
    try:
        own = [header for header in record.headers if not names.is_error_header(header[0])]
    except ValueError:
        return None, None, None
    return record.key, record.value, own + told


def _size(key: memoryview | None, value: memoryview | None, headers: Sequence[Header]) -> int:
    """At least as many bytes as a record takes."""
    size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD + len(name.encode()) + len(content or b"")
    return size
