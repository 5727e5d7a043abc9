"""Batches that nobody would think of."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import ErrorCode
from penstock.records.batch import BatchHead, check_batch, crc_of, patch_base, read_head, seal
from penstock.records.builder import BatchBuilder, batch_of_moment
from penstock.records.compression import DecompressionFailed, compress, decompress
from penstock.records.control import read_marker
from penstock.records.deep import RecordRules, validate
from penstock.records.record import iterate
from penstock.records.varint import InvalidRecord, read_varint, varint, write_varint

SIZE_MAX = 1 << 20

nullable = st.none() | st.binary(max_size=200)
header = st.tuples(st.text(max_size=10), nullable)
timestamps = st.integers(-1, 2**45)
record = st.tuples(nullable, nullable, timestamps, st.lists(header, max_size=3))
codecs = st.integers(0, 4)


def build(records: list[tuple[object, ...]], codec: int, **rest: int) -> bytearray:
    builder = BatchBuilder(compression=codec, **rest)  # type: ignore[arg-type]
    for key, value, timestamp, headers in records:
        builder.append(key, value, timestamp, headers)  # type: ignore[arg-type]
    return bytearray(builder.build())


@given(st.lists(record, min_size=1, max_size=20), codecs, st.integers(0, 2**60))
def test_records_come_back_as_they_went_in(
    records: list[tuple[object, ...]], codec: int, base: int
) -> None:
    batch = build(records, codec)
    head = check_batch(memoryview(batch), 0, len(batch), SIZE_MAX)
    assert isinstance(head, BatchHead)
    patch_base(batch, 0, base, 3)
    assert read_head(batch).crc == crc_of(batch, 0, len(batch))
    read = [(r.key, r.value, r.timestamp, r.headers) for r in iterate(batch)]
    assert read == records
    assert [r.offset for r in iterate(batch)] == list(range(base, base + len(records)))
    assert head.max_timestamp == max(each[2] for each in records)  # type: ignore[type-var]


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varints_come_back_and_leave_what_follows(value: int, rest: bytes) -> None:
    out = bytearray()
    write_varint(out, value)
    size = len(out)
    assert size <= 10
    assert read_varint(out + rest, 0) == (value, size)
    assert varint(value) == out


@given(
    st.lists(st.tuples(st.binary(max_size=200), nullable), min_size=1, max_size=100),
    timestamps,
    st.none() | st.tuples(st.integers(0, 2**60), st.integers(0, 32767)),
)
def test_records_of_one_moment_become_the_batch_that_a_builder_makes_of_them(
    records: list[tuple[bytes, bytes | None]], timestamp: int, producer: tuple[int, int] | None
) -> None:
    who = {} if producer is None else {"producer_id": producer[0], "producer_epoch": producer[1]}
    builder = BatchBuilder(transactional=producer is not None, **who)  # type: ignore[arg-type]
    for key, value in records:
        builder.append(key, value, timestamp)
    assert batch_of_moment(records, timestamp, **who) == builder.build()


@given(st.binary(max_size=300))
def test_garbage_gets_an_answer(data: bytes) -> None:
    assert isinstance(check_batch(memoryview(data), 0, len(data), SIZE_MAX), ErrorCode)


@given(
    st.lists(record, min_size=1, max_size=5),
    codecs,
    st.data(),
)
def test_a_head_with_any_field_changed_gets_an_answer(
    records: list[tuple[object, ...]], codec: int, data: st.DataObject
) -> None:
    batch = build(records, codec)
    form, at = data.draw(
        st.sampled_from(
            [(">i", 8), (">b", 16), (">h", 21), (">i", 23), (">q", 43), (">i", 53), (">i", 57)]
        )
    )
    bits = 8 * struct.calcsize(form)
    value = data.draw(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1))
    struct.pack_into(form, batch, at, value)
    seal(batch, 0, len(batch))
    answer = check_batch(memoryview(batch), 0, len(batch), SIZE_MAX)
    if isinstance(answer, BatchHead):
        # What passes by its head may still lie about its records: looking inside says so.
        validate(memoryview(batch), 0, answer, RecordRules(keys_required=True, size_max=1 << 16), 0)


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 5), codecs)
def test_garbage_records_are_refused_by_name(body: bytes, count: int, codec: int) -> None:
    head = BatchHead(0, 49 + len(body), 0, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count)
    batch = struct.pack(">qiibIhiqqqhii", *head) + body
    try:
        for each in iterate(batch, size_max=1 << 16):
            assert isinstance(each.headers, list)
        read_marker(batch, 0, head)
    except (InvalidRecord, DecompressionFailed):
        pass  # that is the answer


@given(st.binary(max_size=5000), codecs)
def test_compression_is_undone(data: bytes, codec: int) -> None:
    assert decompress(codec, compress(codec, data)) == data


@settings(max_examples=200)
@given(st.binary(min_size=1, max_size=2000), st.integers(1, 4), st.data())
def test_flipped_bits_in_compressed_data_never_pass_the_bound(
    data: bytes, codec: int, draw: st.DataObject
) -> None:
    packed = bytearray(compress(codec, data * 20))
    for _ in range(draw.draw(st.integers(1, 4))):
        packed[draw.draw(st.integers(0, len(packed) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    try:
        assert len(decompress(codec, packed, 1 << 16)) <= 1 << 16
    except DecompressionFailed:
        pass  # that is the answer
