from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol import primitives
from penstock.protocol.primitives import ProtocolError


def _written(write: object, value: object) -> memoryview:
    out = bytearray()
    write(out, value)  # type: ignore[operator]
    return memoryview(bytes(out))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**31 - 1, "ffffffff07")],
)
def test_unsigned_varints_have_seven_bits_per_byte(value: int, text: str) -> None:
    view = _written(primitives.write_uvarint, value)
    assert view.hex() == text
    assert primitives.read_uvarint(view, 0) == (value, len(view))
    assert primitives.uvarint_size(value) == len(view)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (-(2**31), "ffffffff0f")]
)
def test_signed_varints_are_zigzag(value: int, text: str) -> None:
    view = _written(primitives.write_varint, value)
    assert view.hex() == text
    assert primitives.read_varint(view, 0) == (value, len(view))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_are_read_back(value: int) -> None:
    view = _written(primitives.write_varlong, value)
    assert primitives.read_varlong(view, 0) == (value, len(view))


def test_a_varint_without_an_end_is_refused() -> None:
    with pytest.raises(ProtocolError, match="five bytes"):
        primitives.read_uvarint(memoryview(b"\xff" * 20), 0)
    with pytest.raises(ProtocolError, match="ten bytes"):
        primitives.read_varlong(memoryview(b"\xff" * 20), 0)


@given(st.one_of(st.none(), st.text(max_size=300)))
def test_strings_are_read_back_in_both_forms(value: str | None) -> None:
    plain = _written(primitives.write_string, value)
    compact = _written(primitives.write_compact_string, value)
    assert primitives.read_string(plain, 0) == (value, len(plain))
    assert primitives.read_compact_string(compact, 0) == (value, len(compact))


@given(st.one_of(st.none(), st.binary(max_size=300)))
def test_bytes_are_read_back_in_both_forms(value: bytes | None) -> None:
    plain = _written(primitives.write_bytes, value)
    compact = _written(primitives.write_compact_bytes, value)
    assert primitives.read_bytes(plain, 0) == (value, len(plain))
    assert primitives.read_compact_bytes(compact, 0) == (value, len(compact))


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (primitives.read_string, b"\x00\x05abc"),
        (primitives.read_compact_string, b"\x06abc"),
        (primitives.read_bytes, b"\x7f\xff\xff\xffabc"),
        (primitives.read_compact_bytes, b"\xff\xff\xff\xff\x0fabc"),
    ],
)
def test_a_length_beyond_the_end_is_refused(read: object, raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="beyond the end"):
        read(memoryview(raw), 0)  # type: ignore[operator]


def test_strings_beyond_kafkas_bound_are_refused() -> None:
    raw = bytearray()
    primitives.write_uvarint(raw, 32769)
    with pytest.raises(ProtocolError, match="longer"):
        primitives.read_compact_string(memoryview(bytes(raw) + b"x" * 32768), 0)
    for write in (primitives.write_string, primitives.write_compact_string):
        with pytest.raises(ProtocolError, match="longer"):
            write(bytearray(), "x" * 32768)


def test_bad_utf8_is_replaced_as_kafka_does() -> None:
    assert primitives.read_string(memoryview(b"\x00\x03a\xffb"), 0) == ("a\ufffdb", 5)


def test_arrays_refuse_a_count_that_the_bytes_cannot_hold() -> None:
    view = memoryview(bytes(8))
    with pytest.raises(ProtocolError):
        primitives.read_numbers(view, 0, 2**31, "q", 8)
    with pytest.raises(ProtocolError):
        primitives.read_uuids(view, 0, 1)
    with pytest.raises(ProtocolError):
        primitives.read_strings(view, 0, 5)
    with pytest.raises(ProtocolError):
        primitives.read_compact_strings(view, 0, 9)


def test_unknown_tags_are_skipped_within_the_bytes_that_remain() -> None:
    view = memoryview(b"\x05\x02ab\x09\x00rest")
    assert primitives.skip_tags(view, 0, 2) == 6
    with pytest.raises(ProtocolError):
        primitives.skip_tags(memoryview(b"\x05\x09ab"), 0, 1)


def test_more_unknown_tags_than_anybody_has_are_not_even_looked_at() -> None:
    many = memoryview(bytes(2 * (primitives.UNKNOWN_TAGS_MAX + 1)))
    assert primitives.skip_tags(many, 0, primitives.UNKNOWN_TAGS_MAX) == len(many) - 2
    with pytest.raises(ProtocolError, match="tagged fields"):
        primitives.skip_tags(many, 0, primitives.UNKNOWN_TAGS_MAX + 1)


def test_more_strings_than_anybody_has_names_for_are_not_read() -> None:
    many = memoryview(bytes(2 * (primitives.STRINGS_MAX + 1)))
    compact = memoryview(b"\x01" * (primitives.STRINGS_MAX + 1))
    for read, view in ((primitives.read_strings, many), (primitives.read_compact_strings, compact)):
        values, _ = read(view, 0, primitives.STRINGS_MAX)
        assert len(values) == primitives.STRINGS_MAX
        with pytest.raises(ProtocolError, match="at once"):
            read(view, 0, primitives.STRINGS_MAX + 1)
