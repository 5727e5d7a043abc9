from __future__ import annotations

import pytest

from penstock.cli.failure import USAGE, Failure
from penstock.cli.positions import Kind, Position, offset_at, position_of

NOW = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("start", Position(Kind.START)),
        ("earliest", Position(Kind.START)),
        ("END", Position(Kind.END)),
        ("17", Position(Kind.OFFSET, 17)),
        ("-10", Position(Kind.BEFORE_END, 10)),
        ("@5000", Position(Kind.TIME, 5000)),
        ("90s", Position(Kind.TIME, NOW - 90_000)),
        ("15m", Position(Kind.TIME, NOW - 900_000)),
        ("2h", Position(Kind.TIME, NOW - 7_200_000)),
        ("1d", Position(Kind.TIME, NOW - 86_400_000)),
        ("99999999999999999999d", Position(Kind.TIME, 0)),
        ("@99999999999999999999", Position(Kind.TIME, 2**63 - 1)),
        ("99999999999999999999", Position(Kind.OFFSET, 2**63 - 1)),
        ("1970-01-01T00:00:02Z", Position(Kind.TIME, 2000)),
        ("1970-01-02T00:00+00:00", Position(Kind.TIME, 86_400_000)),
    ],
)
def test_positions_are_read_as_people_write_them(text: str, meant: Position) -> None:
    assert position_of(text, NOW, "--from") == meant


@pytest.mark.parametrize("text", ["", "soon", "1w", "-", "1.5", "@", "2026-13-01"])
def test_what_is_no_position_is_a_mistake_of_usage(text: str) -> None:
    with pytest.raises(Failure, match="is not a position") as caught:
        position_of(text, NOW, "--from")
    assert caught.value.status == USAGE


@pytest.mark.parametrize(
    ("position", "offset"),
    [
        (Position(Kind.START), 10),
        (Position(Kind.END), 100),
        (Position(Kind.OFFSET, 50), 50),
        (Position(Kind.OFFSET, 3), 10),
        (Position(Kind.OFFSET, 200), 200),
        (Position(Kind.BEFORE_END, 5), 95),
        (Position(Kind.BEFORE_END, 500), 10),
    ],
)
def test_a_position_means_an_offset_in_each_partition(position: Position, offset: int) -> None:
    assert offset_at(position, 10, 100, -1) == offset


def test_a_time_means_the_first_offset_at_or_after_it_or_the_end() -> None:
    assert offset_at(Position(Kind.TIME, 5), 10, 100, 60) == 60
    assert offset_at(Position(Kind.TIME, 5), 10, 100, -1) == 100
