"""What a dump is made of: rows, and faults among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

Row = dict[str, Any]


class Fault(NamedTuple):
    """Something that must not be in a healthy file, and where."""

    where: str
    problem: str


class Dump(NamedTuple):
    """One file: what it is, the columns that people see, and all that it holds."""

    kind: str
    columns: Sequence[str]
    rows: Iterator[Row | Fault]


def time_text(timestamp: int) -> str | None:
    """Milliseconds since 1970 as people read them, in UTC; None for no time at all."""
    if timestamp < 0:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (OverflowError, ValueError):
        return str(timestamp)  # a producer may claim any 64 bits
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
