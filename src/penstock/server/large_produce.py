"""Whether a large Produce request is large because of its records.

Objects take many times the bytes that stand for them, so every other request has a bound on its
frame. A Produce frame may be as large as the listener allows, if that is due to records, which
stay where they are. This looks at the outline of a request without making objects of it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError

from penstock.protocol.primitives import ProtocolError, cut_short, read_uvarint, skip_tags

FLEXIBLE_FROM = 9
BY_ID_FROM = 13

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ACKS_AND_TIMEOUT = 6
_INDEX = 4
_UUID = 16

Length = Callable[[memoryview, int], tuple[int, int]]
"""Reads a length or a count; below zero stands for null."""


def check_outline(view: memoryview, version: int, at: int, bytes_max: int) -> None:
    """ProtocolError if a Produce request has more than `bytes_max` bytes besides its records."""
    flexible = version >= FLEXIBLE_FROM
    text, count = (_compact, _compact) if flexible else (_int16, _int32)
    limit = at + bytes_max
    try:
        at = _behind(*text(view, at)) + _ACKS_AND_TIMEOUT
        topics, at = count(view, at)
        for _ in range(topics):
            at = at + _UUID if version >= BY_ID_FROM else _behind(*text(view, at))
            partitions, at = count(view, at)
            for _ in range(partitions):
                size, at = count(view, at + _INDEX)
                at = _behind(size, at)
                limit += max(size, 0)
                at = _behind_tags(view, at) if flexible else at
                _check(at, limit)
            at = _behind_tags(view, at) if flexible else at
            _check(at, limit)
    except (IndexError, StructError):
        raise cut_short("a produce request") from None


def _check(at: int, limit: int) -> None:
    if at > limit:
        raise ProtocolError("a produce request consists of much else than records")


def _int16(view: memoryview, at: int) -> tuple[int, int]:
    return _INT16.unpack_from(view, at)[0], at + 2


def _int32(view: memoryview, at: int) -> tuple[int, int]:
    return _INT32.unpack_from(view, at)[0], at + 4


def _compact(view: memoryview, at: int) -> tuple[int, int]:
    raw, at = read_uvarint(view, at)
    return raw - 1, at


def _behind(size: int, at: int) -> int:
    return at + max(size, 0)


def _behind_tags(view: memoryview, at: int) -> int:
    tags, at = read_uvarint(view, at)
    return skip_tags(view, at, tags) if tags else at
