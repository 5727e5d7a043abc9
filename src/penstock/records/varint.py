"""Zig-zag varints, the numbers inside records: small ones of either sign take one byte."""

from __future__ import annotations

from functools import lru_cache

from penstock.records.batch import Bytes


class InvalidRecord(ValueError):
    """A batch whose records contradict their own lengths and counts."""


def read_varint(data: Bytes, at: int) -> tuple[int, int]:
    """A varint of at most 64 bits: its value, and where it ends."""
    try:
        byte = data[at]
        if byte < 0x80:
            return byte >> 1 ^ -(byte & 1), at + 1
        raw = byte & 0x7F
        byte = data[at + 1]
        if byte < 0x80:  # two bytes: most lengths of most records
            raw |= byte << 7
            return raw >> 1 ^ -(raw & 1), at + 2
        for shift in range(7, 70, 7):
            at += 1
            byte = data[at]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                if raw >> 64:
                    break
                return raw >> 1 ^ -(raw & 1), at + 1
    except IndexError:
        raise InvalidRecord("a number runs past the end of its record") from None
    raise InvalidRecord("a number has more than 64 bits")


def write_varint(out: bytearray, value: int) -> None:
    """Append `value`, which must fit 64 signed bits."""
    raw = value << 1 ^ value >> 63
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


@lru_cache(maxsize=1024)
def varint(value: int) -> bytes:
    """The same as bytes of their own, for lengths and counts, which come again and again."""
    out = bytearray()
    write_varint(out, value)
    return bytes(out)
