"""Taking records that are to be delivered later out of a producer's batch.

They go into parking batches directly before it. The batch itself keeps its producer, its sequences
and its offsets, and has gaps where they were, as compaction leaves them: whatever the log does for
a batch (acknowledgement, idempotence, transactions, replication) is done for them as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.delays import MARK, BadDelay, due_of
from penstock.model.errors import ErrorCode
from penstock.records.batch import (
    COMPRESSION_MASK,
    CRC_OFFSET,
    HEAD_SIZE,
    TRANSACTIONAL,
    BatchHead,
)
from penstock.records.builder import BatchBuilder, empty_batch
from penstock.records.compression import SIZE_MAX, DecompressedTooLarge, decompress
from penstock.records.deep import RECORD_ERRORS_MAX, RecordRules
from penstock.records.record import Record, iterate
from penstock.records.varint import varint
from penstock.replica.outcomes import Appended, Refused
from penstock.storage.delay_batches import FRONT_MAX, PARKED, ROW_SIZE, Row, build

if TYPE_CHECKING:
    from penstock.replica.partition import Partition
    from penstock.storage.log_config import LogConfig

ROWS_MAX = 1000
"""Records in one parking batch: whoever looks for one of them reads all rows."""

BATCH_RECORDS_MAX = 50_000
"""Records in a batch that has delayed ones: they are taken apart while nobody else is served. With
what producers do by themselves there are 10,000 at the most."""

NULL = b"\x01"  # a length of -1


class _Later(NamedTuple):
    """A record that is to be parked."""

    index: int  # type: ignore[assignment]  # hides tuple.index, unused here
    due: int
    body: bytes


def append_parking(
    partition: Partition,
    records: memoryview,
    head: BatchHead,
    rules: RecordRules,
    now: int,
    append_time: int,
) -> Appended | Refused | None:
    """Append a producer's batch and what it wants to be delivered later; None if it wants no such
    thing, and nothing was done."""
    log = partition.log
    try:
        codec, data = head.attributes & COMPRESSION_MASK, records[HEAD_SIZE:]
        if MARK not in bytes(decompress(codec, data) if codec else data):
            return None
        if head.count > BATCH_RECORDS_MAX:
            raise BadDelay(
                f"{head.count} records in a batch, and {BATCH_RECORDS_MAX} is the most where some "
                "are delayed: send fewer at a time"
            )
        found = list(iterate(records, 0, SIZE_MAX, head))
        later = _take_out(found, log.config, 0 if log.delays is None else len(log.delays), now)
    except DecompressedTooLarge as error:
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    except ValueError as error:
        return Refused(ErrorCode.INVALID_RECORD, str(error))
    if isinstance(later, Refused):
        return later
    if not later:
        return None
    rest = _without(found, later, head, rules, append_time)
    parts = list(_in_parts(later, log.config.message_max_bytes))
    target = log.end + len(parts)
    crc = int.from_bytes(rest[CRC_OFFSET : CRC_OFFSET + 4], "big")
    batches = [
        build(
            PARKED,
            [Row(one.due, target + one.index, log.end + number, len(one.body)) for one in part],
            [one.body for one in part],
            now,
            target=target,
            crc=crc,
        )
        for number, part in enumerate(parts)
    ]
    return partition.append_together([*batches, rest], now, append_time)


def _take_out(
    records: list[Record], config: LogConfig, waiting: int, now: int
) -> list[_Later] | Refused:
    """Those that are to be delivered later, or why the batch is not taken."""
    later: list[_Later] = []
    faults: list[tuple[int, str]] = []
    room = config.delay_max_records - waiting
    for index, record in enumerate(records):
        if record.end - record.headers_at < len(MARK) or MARK not in bytes(record.headers_raw):
            continue
        try:
            due = due_of(record.headers, now, config.delay_max_ms)
            if due is not None and len(later) >= room:
                raise BadDelay(
                    f"{waiting} delayed records wait in this partition, and "
                    f"{config.delay_max_records} is the most"
                )
        except BadDelay as error:
            faults.append((index, str(error)))
            if len(faults) == RECORD_ERRORS_MAX:
                break
            continue
        if due is not None:
            later.append(_Later(index, due, _body(record)))
    if faults:
        index, why = faults[0]
        message = f"record {index} of {len(records)}: {why}"
        return Refused(ErrorCode.INVALID_RECORD, message, tuple(faults))
    return later


def _body(record: Record) -> bytes:
    """Key, value and headers as they stand in a batch."""
    parts: list[bytes | memoryview] = []
    for field in (record.key, record.value):
        if field is None:
            parts.append(NULL)
        else:
            parts += (varint(len(field)), field)
    return b"".join((*parts, record.headers_raw))


def _without(
    records: list[Record],
    later: list[_Later],
    head: BatchHead,
    rules: RecordRules,
    append_time: int,
) -> bytearray:
    """The producer's batch without those that are parked, at the same offsets."""
    if len(later) == len(records):
        return bytearray(empty_batch(head))
    parked = {one.index for one in later}
    builder = BatchBuilder(
        compression=head.attributes & COMPRESSION_MASK,
        level=rules.level,
        append_time=append_time if append_time >= 0 else None,
        producer_id=head.producer_id,
        producer_epoch=head.producer_epoch,
        base_sequence=head.base_sequence,
        transactional=head.attributes & TRANSACTIONAL != 0,
    )
    for index, record in enumerate(records):
        if index not in parked:
            builder.append_record(record, index)
    return bytearray(builder.build(head.last_offset_delta))


def _in_parts(later: list[_Later], size_max: int) -> Iterator[list[_Later]]:
    """As many together as a batch may hold, and one at least."""
    part: list[_Later] = []
    size = FRONT_MAX
    for one in later:
        more = ROW_SIZE + len(one.body)
        if part and (len(part) == ROWS_MAX or size + more > size_max):
            yield part
            part, size = [], FRONT_MAX
        part.append(one)
        size += more
    yield part
