"""The head of a record batch (magic 2): reading it, checking it, patching it in place.

A batch is a head of 61 bytes and its records, compressed or not:

    base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 |
    last offset delta 4 | base timestamp 8 | max timestamp 8 |
    producer id 8 | producer epoch 2 | base sequence 4 | count 4 | records

`length` counts from the leader epoch on, the CRC covers everything from the attributes on. Base
offset and leader epoch lie outside of both, which lets a broker assign them without a second
checksum. Everything here is a free function on buffers and integers: it is the hot path.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.model.errors import ErrorCode
from penstock.records.checksum import crc32c

Bytes = bytes | bytearray | memoryview
"""What can be read. Pass memoryviews on the hot path: slicing the other two copies."""

HEAD = struct.Struct(">qiibIhiqqqhii")
HEAD_SIZE = HEAD.size
UNCOVERED = struct.Struct(">qiibI")  # a head in two parts: up to the CRC, and what that covers
COVERED = struct.Struct(">hiqqqhii")
BASE = struct.Struct(">q")  # the base offset, which comes first
LENGTH_OFFSET = 8
PREFIX_SIZE = 12  # base offset and length, which `length` does not count
EPOCH_OFFSET = 12
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21  # what the CRC covers begins here
BASE_TIMESTAMP_OFFSET = 27
MAX_TIMESTAMP_OFFSET = 35
COUNT_OFFSET = 57

MAGIC = 2
LENGTH_MIN = 14  # the shortest batch of any magic; below it Kafka calls the bytes corrupt

COMPRESSION_MASK = 0x07
TIMESTAMP_APPEND = 0x08  # set: the broker's time of append; clear: the producer's time
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # base timestamp holds the time from which tombstones may go
BROKERS_OWN = TIMESTAMP_APPEND | CONTROL | DELETE_HORIZON  # no producer may set these

COMPRESSION_LAST = 4  # none 0, gzip 1, snappy 2, lz4 3, zstd 4

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

_PLACE = struct.Struct(">qii")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")

_new = tuple.__new__

Fields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A `BatchHead`, or a plain tuple of the same."""


class BatchHead(NamedTuple):
    """The 13 fields of a batch's head, in the order of the bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # the protocol's word hides tuple.count, unused here

    @property
    def size(self) -> int:
        """Bytes of the whole batch, head included."""
        return self.length + PREFIX_SIZE

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        """The offset after the last one."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap after 2^31 - 1."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_append_time(self) -> bool:
        return self.attributes & TIMESTAMP_APPEND != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon(self) -> int | None:
        """From when on tombstones and markers of this batch may be dropped, if that is set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_head(view: Bytes, at: int = 0) -> BatchHead:
    """The head at `at`; struct.error if fewer than 61 bytes remain."""
    return _new(BatchHead, HEAD.unpack_from(view, at))


def compression_of(view: Bytes, at: int = 0) -> int:
    """The codec that the batch at `at` names; 0, none, if there is no whole head."""
    if len(view) - at < HEAD_SIZE:
        return 0
    return view[at + ATTRIBUTES_OFFSET + 1] & COMPRESSION_MASK


def batch_end(view: Bytes, at: int) -> int:
    """Where the batch at `at` ends and the next one begins."""
    end: int = at + PREFIX_SIZE + _INT32.unpack_from(view, at + LENGTH_OFFSET)[0]
    return end


def crc_of(view: Bytes, at: int, end: int) -> int:
    """The checksum that the batch in [at, end) should carry."""
    return crc32c(view[at + ATTRIBUTES_OFFSET : end])


def check_batch(view: memoryview, at: int, end: int, size_max: int) -> BatchHead | ErrorCode:
    """`check_fields`, with names for the fields."""
    found = check_fields(view, at, end, size_max)
    return _new(BatchHead, found) if type(found) is tuple else found  # type: ignore[return-value]


def check_fields(view: memoryview, at: int, end: int, size_max: int) -> Fields | ErrorCode:
    """The whole check of one partition's data in a produce request, without looking at records.

    [at, end) must hold exactly one batch of magic 2 that a client may write, of at most `size_max`
    bytes, with a true CRC. Answers the head, as a tuple of the plain kind, which is the cheapest to
    take apart; or the error code that Kafka answers.

    Three answers are stricter than Kafka's. Bytes behind the batch that make no second one are
    INVALID_RECORD, where Kafka drops them unseen; a producer that claims the broker's time of
    append gets INVALID_TIMESTAMP on every topic, in Kafka only on those that use it; and a
    producer's delete horizon, which would rush the next compaction, is INVALID_RECORD. Where Kafka
    stumbles and says UNKNOWN_SERVER_ERROR (an unknown compression, a batch shorter than its head,
    a length of two gigabytes), the answer here names the fault.
    """
    size = end - at
    if size < HEAD_SIZE:
        return _refusal(view, at, end)
    fields: Fields = HEAD.unpack_from(view, at)
    (base_offset, length, _, magic, crc, attributes, delta, _, _, producer, _, sequence, count) = (
        fields
    )
    if length != size - PREFIX_SIZE or magic != MAGIC or base_offset:
        return _refusal(view, at, end)
    if size > size_max:
        return ErrorCode.MESSAGE_TOO_LARGE
    if crc32c(view[at + ATTRIBUTES_OFFSET : end]) != crc:
        return ErrorCode.CORRUPT_MESSAGE
    if count != delta + 1 or count <= 0 or (sequence < 0 and producer >= 0):
        return ErrorCode.INVALID_RECORD
    if attributes & BROKERS_OWN:
        claims_time = attributes & BROKERS_OWN == TIMESTAMP_APPEND
        return ErrorCode.INVALID_TIMESTAMP if claims_time else ErrorCode.INVALID_RECORD
    if attributes & COMPRESSION_MASK > COMPRESSION_LAST:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return fields


def _refusal(view: memoryview, at: int, end: int) -> ErrorCode:
    """Why [at, end) is not one batch of magic 2 at offset 0: Kafka's checks in Kafka's order."""
    while True:
        remains = end - at
        if remains < PREFIX_SIZE:
            return ErrorCode.INVALID_RECORD  # not even one batch
        length = _INT32.unpack_from(view, at + LENGTH_OFFSET)[0]
        if length < LENGTH_MIN:
            return ErrorCode.CORRUPT_MESSAGE
        if remains <= MAGIC_OFFSET:
            return ErrorCode.INVALID_RECORD
        if view[at + MAGIC_OFFSET] > MAGIC:  # unsigned: a negative magic is above as well
            return ErrorCode.CORRUPT_MESSAGE
        if remains <= length + PREFIX_SIZE:
            break
        # More than one batch, and that is refused; unless what follows is not even one.
        at += length + PREFIX_SIZE
    if remains < length + PREFIX_SIZE:
        return ErrorCode.INVALID_RECORD  # cut short
    if view[at + MAGIC_OFFSET] < MAGIC:
        return ErrorCode.INVALID_RECORD  # produce requests carry magic 2 from version 3 on
    if remains < HEAD_SIZE:
        return ErrorCode.CORRUPT_MESSAGE
    return ErrorCode.INVALID_RECORD  # the base offset is the broker's to assign


def place(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """`patch_base` for a view of just one batch, whose length is known then."""
    _PLACE.pack_into(batch, 0, base_offset, len(batch) - PREFIX_SIZE, leader_epoch)


def patch_base(view: bytearray | memoryview, at: int, base_offset: int, leader_epoch: int) -> None:
    """Assign offset and epoch in place. Both lie outside the CRC, which stays true."""
    BASE.pack_into(view, at, base_offset)
    _INT32.pack_into(view, at + EPOCH_OFFSET, leader_epoch)


def patch_append_time(view: bytearray | memoryview, at: int, end: int, now: int) -> None:
    """Give all records of the batch in [at, end) the broker's time, and make the CRC true."""
    attributes = _ATTRIBUTES.unpack_from(view, at + ATTRIBUTES_OFFSET)[0]
    _ATTRIBUTES.pack_into(view, at + ATTRIBUTES_OFFSET, attributes | TIMESTAMP_APPEND)
    _TIMESTAMP.pack_into(view, at + MAX_TIMESTAMP_OFFSET, now)
    seal(view, at, end)


def seal(view: bytearray | memoryview, at: int, end: int) -> None:
    """Write the CRC of the batch in [at, end) after its content changed."""
    with memoryview(view) as whole, whole[at + ATTRIBUTES_OFFSET : end] as covered:
        _UINT32.pack_into(whole, at + CRC_OFFSET, crc32c(covered))
