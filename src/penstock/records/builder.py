"""Building batches: what a broker writes of its own, and what it must write anew.

The bytes are those that Apache's builder makes of the same input (compressed ones as far as the
codecs agree). The metadata log and the coordinators write through here, and so do recompression
and compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.records.batch import (
    CONTROL,
    COVERED,
    DELETE_HORIZON,
    HEAD,
    HEAD_SIZE,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PREFIX_SIZE,
    TIMESTAMP_APPEND,
    TRANSACTIONAL,
    UNCOVERED,
    BatchHead,
    Bytes,
    seal,
)
from penstock.records.checksum import crc32c
from penstock.records.compression import NONE, compress
from penstock.records.control import ABORT, COMMIT, END_TXN, KEY
from penstock.records.record import Header, Record
from penstock.records.varint import varint, write_varint

NO_EPOCH = -1
NO_TIMESTAMP = -1
NO_HEADERS = b"\x00"  # a count of zero
_START = b"\x00\x00"  # no attributes are defined, and as old as the batch
_NO_VALUE = b"\x01" + NO_HEADERS  # a length of -1


class BatchBuilder:
    """Collects records and becomes one batch.

    `append_time` stamps the whole batch with the broker's time. `delete_horizon` marks a compacted
    batch with the time from which its tombstones may go. Offsets count up from `base_offset`
    unless they are given.
    """

    __slots__ = (
        "_append_time",
        "_attributes",
        "_base_timestamp",
        "_body",
        "_leader_epoch",
        "_level",
        "_max_timestamp",
        "_producer",
        "_record",
        "base_offset",
        "count",
        "last_offset",
    )

    def __init__(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = NO_EPOCH,
        compression: int = NONE,
        level: int | None = None,
        append_time: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        delete_horizon: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = base_offset - 1
        self.count = 0
        self._leader_epoch = leader_epoch
        self._level = level
        self._append_time = append_time
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._base_timestamp = delete_horizon
        self._max_timestamp = NO_TIMESTAMP
        self._attributes = (
            compression
            | (TIMESTAMP_APPEND if append_time is not None else 0)
            | (TRANSACTIONAL if transactional else 0)
            | (CONTROL if control else 0)
            | (DELETE_HORIZON if delete_horizon is not None else 0)
        )
        self._body = bytearray()
        self._record = bytearray()

    @property
    def size(self) -> int:
        """Bytes of the batch if it were built now, before compression."""
        return HEAD_SIZE + len(self._body)

    def append(
        self,
        key: Bytes | None,
        value: Bytes | None,
        timestamp: int,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> int:
        """Add a record and answer its offset."""
        raw = _encode_headers(headers) if headers else NO_HEADERS
        return self._put(key, value, timestamp, raw, offset)

    def append_record(self, record: Record, offset: int | None = None) -> int:
        """Add a record of another batch, headers and all, at its own offset or a given one."""
        at = record.offset if offset is None else offset
        return self._put(record.key, record.value, record.timestamp, record.headers_raw, at)

    def _put(
        self,
        key: Bytes | None,
        value: Bytes | None,
        timestamp: int,
        headers: Bytes,
        offset: int | None,
    ) -> int:
        if offset is None:
            offset = self.last_offset + 1
        if offset <= self.last_offset:
            raise ValueError(f"offset {offset} is not above {self.last_offset}")
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        record = self._record
        record.clear()
        record.append(0)  # attributes: none are defined
        write_varint(record, timestamp - self._base_timestamp)
        write_varint(record, offset - self.base_offset)
        for field in (key, value):
            if field is None:
                record.append(1)  # -1
            else:
                write_varint(record, len(field))
                record += field
        record += headers
        write_varint(self._body, len(record))
        self._body += record
        self.last_offset = offset
        self.count += 1
        return offset

    def build(self, last_offset: int | None = None) -> bytes:
        """The batch. `last_offset` may lie above the last record's, where compaction took some."""
        if last_offset is None:
            last_offset = self.last_offset
        attributes = self._attributes
        body: Bytes = self._body
        if attributes & 7:
            body = compress(attributes & 7, body, self._level)
        out = bytearray(HEAD_SIZE)
        out += body
        base_timestamp = self._base_timestamp
        HEAD.pack_into(
            out,
            0,
            self.base_offset,
            len(out) - PREFIX_SIZE,
            self._leader_epoch,
            MAGIC,
            0,
            attributes,
            last_offset - self.base_offset,
            NO_TIMESTAMP if base_timestamp is None else base_timestamp,
            self._max_timestamp if self._append_time is None else self._append_time,
            *self._producer,
            self.count,
        )
        seal(out, 0, len(out))
        return bytes(out)


def _encode_headers(headers: Sequence[Header]) -> bytearray:
    out = bytearray()
    write_varint(out, len(headers))
    for key, value in headers:
        name = key.encode()
        write_varint(out, len(name))
        out += name
        if value is None:
            out.append(1)
        else:
            write_varint(out, len(value))
            out += value
    return out


def batch_of_moment(
    records: Iterable[tuple[bytes, bytes | None]],
    timestamp: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytearray:
    """An uncompressed batch of (key, value) that are all equally old; transactional if a producer
    is named. What a coordinator writes at each of its steps, in half the time of a builder.
    """
    parts = []
    count = 0
    for key, value in records:
        front = _START + varint(count) + varint(len(key)) + key
        back = _NO_VALUE if value is None else varint(len(value)) + value + NO_HEADERS
        parts.append(varint(len(front) + len(back)) + front + back)
        count += 1
    body = b"".join(parts)
    covered = COVERED.pack(
        0 if producer_id == NO_PRODUCER_ID else TRANSACTIONAL,
        count - 1,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        count,
    )
    crc = crc32c(body, crc32c(covered))
    length = HEAD_SIZE - PREFIX_SIZE + len(body)
    return bytearray(UNCOVERED.pack(0, length, NO_EPOCH, MAGIC, crc) + covered + body)


def empty_batch(head: BatchHead) -> bytes:
    """What stays of a batch when compaction took all its records: its place and its producer.

    The last sequence of a producer lives in the batch heads alone, so the newest batch of each
    producer outlives its records.
    """
    out = bytearray(HEAD_SIZE)
    kept = head.attributes & (TIMESTAMP_APPEND | TRANSACTIONAL | CONTROL)
    place = head._replace(
        length=HEAD_SIZE - PREFIX_SIZE,
        attributes=kept,
        base_timestamp=NO_TIMESTAMP,
        count=0,
    )
    HEAD.pack_into(out, 0, *place)
    seal(out, 0, HEAD_SIZE)
    return bytes(out)


def control_batch(
    records: Iterable[tuple[int, Bytes]],
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytes:
    """A control batch of the metadata log: (kind, encoded message) for each record.

    The kinds are in `control`; the messages are LeaderChangeMessage, SnapshotHeaderRecord,
    SnapshotFooterRecord, KRaftVersionRecord and VotersRecord, written without a version in front.
    """
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch, control=True)
    for kind, value in records:
        builder.append(KEY.pack(0, kind), value, timestamp)
    return builder.build()


def end_txn_batch(
    *,
    is_commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytes:
    """The marker that ends a producer's transaction on one partition."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    kind = COMMIT if is_commit else ABORT
    builder.append(KEY.pack(0, kind), END_TXN.pack(0, coordinator_epoch), timestamp)
    return builder.build()
