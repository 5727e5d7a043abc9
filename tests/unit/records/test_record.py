from __future__ import annotations

import struct

import pytest

from penstock.records.batch import HEAD_SIZE, seal
from penstock.records.builder import BatchBuilder
from penstock.records.record import iterate
from penstock.records.varint import InvalidRecord, read_varint, write_varint


def one(key: bytes | None = b"key", value: bytes | None = b"value") -> bytearray:
    builder = BatchBuilder()
    builder.append(key, value, 1000, [("h", b"x")])
    return bytearray(builder.build())


@pytest.mark.parametrize("value", [0, -1, 1, 63, 64, -64, -65, 2**31 - 1, -(2**63), 2**63 - 1])
def test_varints_come_back(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert read_varint(out, 0) == (value, len(out))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10, b"\xff" * 9 + b"\x02"])
def test_varints_that_do_not_end_in_64_bits_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        read_varint(data, 0)


@pytest.mark.parametrize("claim", [-1, 1, 2**31 - 1, 2**62])
def test_a_record_that_claims_more_bytes_than_there_are_is_refused(claim: int) -> None:
    head = one()[:HEAD_SIZE]
    write_varint(head, claim)
    struct.pack_into(">i", head, 8, len(head) - 12)
    with pytest.raises(InvalidRecord):
        list(iterate(head))


@pytest.mark.parametrize("field", ["key", "value", "headers"])
def test_a_field_that_claims_more_bytes_than_its_record_is_refused(field: str) -> None:
    body = bytearray(3)  # attributes, timestamp delta, offset delta
    for name in ("key", "value"):
        write_varint(body, 2**40 if name == field else 0)
    write_varint(body, 2**40 if field == "headers" else 0)
    batch = one()[:HEAD_SIZE]
    write_varint(batch, len(body))
    batch += body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    with pytest.raises(InvalidRecord):
        for record in iterate(batch):
            assert record.headers == []


def test_a_count_beyond_the_records_is_refused() -> None:
    batch = one()
    struct.pack_into(">i", batch, 57, 2)
    with pytest.raises(InvalidRecord):
        list(iterate(batch))


def test_bytes_behind_the_last_record_are_refused() -> None:
    batch = one() + b"\x00\x00"
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    with pytest.raises(InvalidRecord, match="2 bytes behind"):
        list(iterate(batch))


def test_a_batch_that_is_cut_short_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="cut short"):
        list(iterate(one()[:-1]))


def test_a_header_key_must_be_text() -> None:
    batch = one()
    batch[batch.index(b"h", HEAD_SIZE)] = 0xFF
    seal(batch, 0, len(batch))
    (record,) = iterate(batch)
    with pytest.raises(InvalidRecord, match="UTF-8"):
        assert record.headers


def test_null_and_empty_are_told_apart() -> None:
    (record,) = iterate(one(None, b""))
    assert record.key is None
    assert record.value == b""


def test_offsets_in_a_batch_must_rise() -> None:
    builder = BatchBuilder(base_offset=5)
    builder.append(b"k", b"v", 0, offset=7)
    with pytest.raises(ValueError, match="not above 7"):
        builder.append(b"k", b"v", 0, offset=7)
