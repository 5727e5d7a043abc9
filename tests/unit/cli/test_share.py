"""Share groups as documents and tables, without a cluster."""

from __future__ import annotations

import pytest

from penstock.cli import shares
from penstock.cli.failure import USAGE, Failure
from penstock.cli.main import run
from penstock.cli.places import Place


@pytest.mark.parametrize(
    ("start", "end", "lag", "ahead"),
    [
        (0, 10, 10, 0),
        (4, 10, 3, 3),
        (10, 10, 0, 0),
        (4, 10, None, None),
        (4, None, 3, None),
        (12, 10, 0, 0),  # the end was asked for a moment before the start moved
    ],
)
def test_what_is_done_with_ahead_is_neither_behind_nor_lag(
    start: int, end: int | None, lag: int | None, ahead: int | None
) -> None:
    assert shares.line(Place("t", 1), start, end, lag) == {
        "topic": "t", "partition": 1, "start": start, "end": end, "ahead": ahead, "lag": lag,
    }  # fmt: skip


def described(*members: str) -> shares.Document:
    return {
        "group": "g", "type": "share", "state": "stable", "assignor": "simple", "epoch": 3,
        "coordinator": {"id": 1, "host": "h", "port": 9092},
        "members": [
            {"member": one, "client": "c", "host": "::1", "rack": None, "epoch": 3,
             "topics": ["t"], "assignment": {"t": [0, 1]}}
            for one in members
        ],
        "offsets": [shares.line(Place("t", 0), 4, 10, 3)],
        "settings": {"share.isolation.level": "read_committed"},
    }  # fmt: skip


def test_a_share_group_has_four_tables_and_only_those_with_something_in_them() -> None:
    head, members, offsets, settings = shares.tables(described("m-1"))
    assert list(head.rows[0]) == ["g", "share", "stable", "simple", "1 (h:9092)", 1, 3]
    assert list(members.rows[0]) == ["m-1", "c", "::1", 3, "t:0,1"]
    assert list(offsets.rows[0]) == ["t", 0, 4, 10, 3, 3]
    assert list(settings.rows[0]) == ["share.isolation.level", "read_committed"]
    assert len(shares.tables({**described(), "offsets": [], "settings": {}})) == 1


def test_a_group_with_members_is_not_moved() -> None:
    shares.refuse_if_active(described())
    with pytest.raises(Failure, match="stable with 2 members, and its offsets are theirs"):
        shares.refuse_if_active(described("a", "b"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--to-latest",), "which partitions?"),
        (("--all-topics", "--topic", "t", "--to-latest"), "do not go together"),
        (("--all-topics",), "where to?"),
        (("--all-topics", "--to-latest", "--to-offset", "3"), "do not go together"),
        (("--topic", "t:x", "--to-latest"), "names no partitions"),
    ],
)
def test_a_reset_that_says_too_little_or_too_much_reaches_nobody(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    assert run(["share", "reset", "g", *words, "-b", "localhost:1"]) == USAGE
    assert problem in capsys.readouterr().err
