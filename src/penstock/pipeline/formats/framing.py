"""Payloads as a schema registry's clients write them: a zero, a schema's number, the value.

Protobuf's have one thing more in front of the value: the way to the message within its file, as
numbers of zigzag varints; a single zero stands for the first message.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

MAGIC = b"\0"
FRAME_BYTES = 5
NOT_FRAMED = "it does not begin with a zero and the number of a registered schema"

_NUMBER = struct.Struct(">xI")


def unframe(raw: Column) -> tuple[Column, Column]:
    """The payload behind a frame, and what is wrong with the frame."""
    from pyspark.sql import functions as f

    framed = (f.octet_length(raw) >= FRAME_BYTES) & (f.substring(raw, 1, 1) == f.lit(MAGIC))
    payload = f.when(framed, f.substring(raw, FRAME_BYTES + 1, 2**31 - 1))
    return payload, f.when(~framed, NOT_FRAMED)


def frame_number(value: bytes) -> int | None:
    """The number of the schema, or None where there is no frame."""
    if len(value) < FRAME_BYTES or value[:1] != MAGIC:
        return None
    number: int = _NUMBER.unpack_from(value)[0]
    return number


def frame(number: int) -> bytes:
    """What stands in front of a value."""
    return _NUMBER.pack(number)


def message_path_end(payload: bytes) -> int:
    """Where the value begins behind the way to its message; ValueError if the way has no end."""
    count, at = _varint(payload, 0)
    for _ in range(count):
        _, at = _varint(payload, at)
    return at


def message_path(path: Sequence[int]) -> bytes:
    """The way to a message within its file."""
    if list(path) == [0]:
        return b"\0"
    return b"".join(map(_zigzag, (len(path), *path)))


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(payload):
            break
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("the way to the message has no end")


def _zigzag(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
