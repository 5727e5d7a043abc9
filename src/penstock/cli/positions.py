"""Places in a partition, as people say them: the start, an offset, the last ten, an hour ago."""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from penstock.cli.failure import USAGE, Failure

FORMS = (
    "start, end, an offset, -N for the last N, a time such as 2026-11-15T09:30, "
    "a duration such as 90s, 15m, 2h or 1d for that long ago, or @MILLISECONDS since 1970"
)

_INT64_MAX = 2**63 - 1

_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Kind(Enum):
    """What a position counts from."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    BEFORE_END = "before end"
    TIME = "time"


class Position(NamedTuple):
    """A place in any partition; `number` is an offset, a count or a time in milliseconds."""

    kind: Kind
    number: int = 0


def position_of(text: str, now_ms: int, option: str) -> Position:
    """The position that a user wrote; `Failure` if it is none."""
    word = text.strip().lower()
    if word in ("start", "beginning", "earliest"):
        return Position(Kind.START)
    if word in ("end", "latest"):
        return Position(Kind.END)
    if re.fullmatch(r"\d+", word):
        return Position(Kind.OFFSET, min(int(word), _INT64_MAX))
    if re.fullmatch(r"-\d+", word):
        return Position(Kind.BEFORE_END, int(word[1:]))
    if re.fullmatch(r"@\d+", word):
        return _at(int(word[1:]))
    if duration := _DURATION.fullmatch(word):
        return _at(now_ms - int(duration[1]) * UNIT_MS[duration[2]])
    try:
        return _at(round(datetime.fromisoformat(text.strip()).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise Failure(f"{option} {text!r} is not a position", f"expected {FORMS}", USAGE) from None


def _at(time_ms: int) -> Position:
    """A time that 64 bits can hold: below zero are the protocol's special ones."""
    return Position(Kind.TIME, max(0, min(time_ms, _INT64_MAX)))


def offset_at(position: Position, start: int, end: int, by_time: int) -> int:
    """The offset of a position in a partition that holds `start` up to, not including, `end`.

    `by_time` is the first offset at or after the position's time, negative if there is none.
    An offset past the end stays as it is: it may come to be.
    """
    if position.kind is Kind.START:
        return start
    if position.kind is Kind.OFFSET:
        return max(start, position.number)
    if position.kind is Kind.BEFORE_END:
        return max(start, end - position.number)
    if position.kind is Kind.TIME and by_time >= 0:
        return by_time
    return end
