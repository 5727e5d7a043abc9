"""Looking inside a produced batch, for the topics that ask for it.

Most topics take a batch by its head alone. These need its records: compacted topics (each record
needs a key), topics with a compression of their own, topics that bound how old a timestamp may be,
and any batch whose youngest timestamp lies too far ahead, to say which record it was.

`looks_inside` decides that from the head, with a few comparisons; `validate` does the work.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.errors import ErrorCode
from penstock.records.batch import (
    COMPRESSION_MASK,
    MAX_TIMESTAMP_OFFSET,
    TRANSACTIONAL,
    BatchHead,
    seal,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import CODEC_NAMES, SIZE_MAX, DecompressedTooLarge
from penstock.records.record import Record, iterate

FOREVER = 2**63 - 1
PRODUCERS_CODEC = -1
RECORD_ERRORS_MAX = 1000  # an answer must not outgrow the batch that it refuses
NO_TIMESTAMP = -1


class RecordRules(NamedTuple):
    """What a topic asks of every record. Make one per topic, with `rules_for`."""

    keys_required: bool = False
    codec: int = PRODUCERS_CODEC
    level: int | None = None
    append_time: bool = False
    before_max_ms: int = FOREVER
    after_max_ms: int = FOREVER
    size_max: int = SIZE_MAX

    @property
    def always(self) -> bool:
        """Whether every batch must be opened, whatever its head says."""
        return self.keys_required or (self.before_max_ms < FOREVER and not self.append_time)


class RecordFault(NamedTuple):
    """One refused record: its place in the batch, and why."""

    index: int  # type: ignore[assignment]  # hides tuple.index, unused here
    message: str


class Refused(NamedTuple):
    """The batch is refused whole; `faults` name the records that caused it."""

    code: ErrorCode
    message: str
    faults: list[RecordFault]


class Accepted(NamedTuple):
    """The batch may be appended: as it came if `batch` is None, otherwise in this form."""

    batch: bytearray | None
    max_timestamp: int


def rules_for(
    *,
    compacted: bool,
    compression: str,
    levels: dict[str, int] | None = None,
    append_time: bool,
    before_max_ms: int,
    after_max_ms: int,
) -> RecordRules:
    """The rules of a topic's configuration. `compression` is `compression.type` as it is written:
    a codec's name, "uncompressed" or "producer"."""
    if compression == "producer":
        codec = PRODUCERS_CODEC
    elif compression == "uncompressed":
        codec = 0
    else:
        codec = CODEC_NAMES.index(compression)
    level = (levels or {}).get(compression)
    return RecordRules(compacted, codec, level, append_time, before_max_ms, after_max_ms)


def looks_inside(rules: RecordRules, head: BatchHead, now: int) -> bool:
    """Whether the head is not enough for this topic."""
    return (
        (rules.codec >= 0 and rules.codec != head.attributes & COMPRESSION_MASK)
        or (head.max_timestamp - now > rules.after_max_ms and not rules.append_time)
        or rules.keys_required
        or (rules.before_max_ms < FOREVER and not rules.append_time)
    )


def validate(
    view: memoryview, at: int, head: BatchHead, rules: RecordRules, now: int
) -> Accepted | Refused:
    """Check each record of a batch that passed `check_batch`, and recompress it if the topic says.

    A batch in a new form has no offset and no epoch yet. Where the topic uses the broker's time,
    the caller stamps the batch as it would any other.
    """
    try:
        records = list(iterate(view, at, rules.size_max, head))
        for record in records:
            if record.end - record.headers_at > 1:  # more than a count of zero
                _ = record.headers  # they are written on as they are, so they must make sense
    except DecompressedTooLarge as error:
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error), [])
    except ValueError as error:
        return Refused(ErrorCode.INVALID_RECORD, str(error), [])
    refused = _find_faults(records, rules, now)
    if refused is not None:
        return refused
    max_timestamp = max(record.timestamp for record in records)
    codec = head.attributes & COMPRESSION_MASK
    in_line = all(record.offset == index for index, record in enumerate(records))
    if rules.codec not in (PRODUCERS_CODEC, codec) or not in_line:
        return Accepted(_rebuild(head, records, rules, codec), max_timestamp)
    if max_timestamp == head.max_timestamp or rules.append_time:
        return Accepted(None, max_timestamp)
    # Look-ups by time trust the head, so a head that lies is put right.
    batch = bytearray(view[at : at + head.size])
    batch[MAX_TIMESTAMP_OFFSET : MAX_TIMESTAMP_OFFSET + 8] = max_timestamp.to_bytes(
        8, "big", signed=True
    )
    seal(batch, 0, len(batch))
    return Accepted(batch, max_timestamp)


def _find_faults(records: list[Record], rules: RecordRules, now: int) -> Refused | None:
    oldest = now - rules.before_max_ms
    youngest = now + rules.after_max_ms
    faults: list[RecordFault] = []
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(records):
        timestamp = record.timestamp
        if rules.keys_required and record.key is None:
            faults.append(RecordFault(index, "a record without a key on a compacted topic"))
        elif (
            not rules.append_time
            and timestamp != NO_TIMESTAMP
            and not oldest <= timestamp <= youngest
        ):
            code = ErrorCode.INVALID_TIMESTAMP
            message = f"timestamp {timestamp} is not within [{oldest}, {youngest}]"
            faults.append(RecordFault(index, message))
        if len(faults) == RECORD_ERRORS_MAX:
            break
    if not faults:
        return None
    # One word for all of them, as in Kafka: timestamps go before the rest.
    first = faults[0]
    return Refused(code, f"record {first.index} of {len(records)}: {first.message}", faults)


def _rebuild(head: BatchHead, records: list[Record], rules: RecordRules, codec: int) -> bytearray:
    """The same records in the topic's codec, with consecutive offsets."""
    own = rules.codec >= 0
    builder = BatchBuilder(
        compression=rules.codec if own else codec,
        level=rules.level if own else None,
        producer_id=head.producer_id,
        producer_epoch=head.producer_epoch,
        base_sequence=head.base_sequence,
        transactional=head.attributes & TRANSACTIONAL != 0,
    )
    for index, record in enumerate(records):
        builder.append_record(record, index)
    return bytearray(builder.build())
