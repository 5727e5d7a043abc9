from __future__ import annotations

import struct
import subprocess
import sys

import pytest

from penstock.model.errors import ErrorCode
from penstock.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEAD_SIZE,
    TIMESTAMP_APPEND,
    BatchHead,
    batch_end,
    check_batch,
    crc_of,
    patch_append_time,
    patch_base,
    read_head,
    seal,
)
from penstock.records.builder import BatchBuilder
from penstock.records.record import iterate

SIZE_MAX = 1_000_000


def batch_of(count: int = 3, **settings: object) -> bytearray:
    builder = BatchBuilder(**settings)  # type: ignore[arg-type]
    for number in range(count):
        builder.append(b"key", b"value %d" % number, 1_700_000_000_000 + number)
    return bytearray(builder.build())


def check(data: bytes | bytearray, size_max: int = SIZE_MAX) -> BatchHead | ErrorCode:
    return check_batch(memoryview(data), 0, len(data), size_max)


def changed(batch: bytearray, form: str, at: int, value: int) -> bytearray:
    """The batch with one field overwritten and a true checksum."""
    struct.pack_into(form, batch, at, value)
    seal(batch, 0, len(batch))
    return batch


def test_a_good_batch_is_answered_with_its_head() -> None:
    batch = batch_of(producer_id=9, producer_epoch=1, base_sequence=5)
    head = check(batch)
    assert isinstance(head, BatchHead)
    assert head == read_head(batch)
    assert (head.count, head.last_offset, head.end_offset, head.last_sequence) == (3, 2, 3, 7)


def test_a_batch_is_checked_where_it_stands_in_a_larger_buffer() -> None:
    batch = batch_of()
    frame = memoryview(b"before" + batch + b"after")
    end = 6 + len(batch)
    assert isinstance(check_batch(frame, 6, end, SIZE_MAX), BatchHead)
    assert batch_end(frame, 6) == end


def test_the_last_sequence_wraps_to_zero() -> None:
    head = read_head(batch_of(producer_id=9, producer_epoch=1, base_sequence=2**31 - 2))
    assert head.last_sequence == 0


def test_every_flipped_bit_behind_the_checksum_is_corrupt() -> None:
    batch = batch_of()
    for at in range(17, len(batch)):
        flipped = bytearray(batch)
        flipped[at] ^= 0x10
        assert check(flipped) is ErrorCode.CORRUPT_MESSAGE, at


@pytest.mark.parametrize("size", [0, 5, 11, 12, 16, 17, 30, 60, 61, 80])
def test_a_batch_that_is_cut_short_is_no_record(size: int) -> None:
    assert check(batch_of()[:size]) is ErrorCode.INVALID_RECORD


def test_thousands_of_batches_for_one_partition_are_refused_like_two() -> None:
    shortest = bytes(8) + (14).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(9)
    data = shortest * 10_000
    assert check_batch(memoryview(data), 0, len(data), 1 << 20) is ErrorCode.CORRUPT_MESSAGE


def test_two_batches_for_one_partition_are_refused() -> None:
    assert check(batch_of() + batch_of()) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused_as_kafka_does(magic: int) -> None:
    batch = batch_of()
    batch[16] = magic
    assert check(batch) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_unknown_message_formats_are_corrupt(magic: int) -> None:
    batch = batch_of()
    batch[16] = magic
    assert check(batch) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_lengths_below_any_batch_are_corrupt(length: int) -> None:
    batch = batch_of()
    struct.pack_into(">i", batch, 8, length)
    assert check(batch) is ErrorCode.CORRUPT_MESSAGE


def test_a_length_beyond_the_frame_is_no_record() -> None:
    batch = batch_of()
    struct.pack_into(">i", batch, 8, 2**31 - 1)
    assert check(batch) is ErrorCode.INVALID_RECORD


def test_a_whole_batch_shorter_than_a_head_is_corrupt() -> None:
    short = batch_of()[:40]
    struct.pack_into(">i", short, 8, 28)
    assert check(short) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_above_the_size_bound_is_too_large() -> None:
    batch = batch_of()
    assert isinstance(check(batch, len(batch)), BatchHead)
    assert check(batch, len(batch) - 1) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("form", "at", "value", "code"),
    [
        (">q", 0, 7, ErrorCode.INVALID_RECORD),  # base offsets are the broker's
        (">i", 23, 3, ErrorCode.INVALID_RECORD),  # last offset delta against the count
        (">i", 23, -1, ErrorCode.INVALID_RECORD),
        (">i", 57, 0, ErrorCode.INVALID_RECORD),  # count
        (">i", 57, -3, ErrorCode.INVALID_RECORD),
        (">h", 21, CONTROL, ErrorCode.INVALID_RECORD),
        (">h", 21, CONTROL | TIMESTAMP_APPEND, ErrorCode.INVALID_RECORD),
        (">h", 21, DELETE_HORIZON, ErrorCode.INVALID_RECORD),
        (">h", 21, TIMESTAMP_APPEND, ErrorCode.INVALID_TIMESTAMP),
        (">h", 21, 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (">h", 21, 7, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (">q", 43, 1, ErrorCode.INVALID_RECORD),  # a producer id without a sequence
    ],
)
def test_a_head_that_contradicts_itself_is_refused(
    form: str, at: int, value: int, code: ErrorCode
) -> None:
    assert check(changed(batch_of(), form, at, value)) is code


def test_zero_records_are_refused_even_if_offsets_agree() -> None:
    batch = batch_of(1)
    struct.pack_into(">i", batch, 23, -1)
    assert check(changed(batch, ">i", 57, 0)) is ErrorCode.INVALID_RECORD


def test_offset_and_epoch_are_assigned_without_touching_the_checksum() -> None:
    batch = batch_of()
    patch_base(batch, 0, 2**40, 17)
    head = read_head(batch)
    assert (head.base_offset, head.leader_epoch) == (2**40, 17)
    assert head.crc == crc_of(batch, 0, len(batch))
    assert [record.offset for record in iterate(batch)] == [2**40, 2**40 + 1, 2**40 + 2]


def test_append_time_replaces_every_records_timestamp() -> None:
    batch = batch_of()
    patch_append_time(batch, 0, len(batch), 1_800_000_000_000)
    head = read_head(batch)
    assert head.is_append_time
    assert head.crc == crc_of(batch, 0, len(batch))
    assert {record.timestamp for record in iterate(batch)} == {1_800_000_000_000}


def test_patching_leaves_the_buffer_free_to_grow() -> None:
    batch = batch_of()
    patch_append_time(batch, 0, len(batch), 5)
    batch += b"more"  # BufferError if a view were still held
    assert len(batch) > HEAD_SIZE


def test_importing_batches_does_not_import_packaging_metadata() -> None:
    code = (
        "import sys, penstock.records.batch as b;"
        "assert b.crc32c(b'123456789') == 0xE3069283;"
        "print('importlib.metadata' in sys.modules, 'cramjam' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["False", "False"]
