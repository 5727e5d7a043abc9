"""Where a reset goes, partition by partition."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli import group_offsets, group_reset
from penstock.cli.failure import USAGE, Failure
from penstock.cli.group_reset import Goal, Move, Target, target_of
from penstock.cli.places import Place

NOW = 1_000_000_000
NOTHING: dict[str, Any] = {
    "to_earliest": False, "to_latest": False, "to_current": False, "to_offset": None,
    "shift_by": None, "to_time": None, "by_duration": None, "now_ms": NOW,
}  # fmt: skip
PLACE = Place("orders", 0)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"to_earliest": True}, Target(Goal.EARLIEST)),
        ({"to_latest": True}, Target(Goal.LATEST)),
        ({"to_current": True}, Target(Goal.CURRENT)),
        ({"to_offset": 0}, Target(Goal.OFFSET, 0)),
        ({"shift_by": -5}, Target(Goal.SHIFT, -5)),
        ({"to_time": "1970-01-01T00:00:02Z"}, Target(Goal.TIME, 2000)),
        ({"by_duration": "PT1H"}, Target(Goal.TIME, NOW - 3_600_000)),
        ({"by_duration": "999999999d"}, Target(Goal.TIME, 0)),
    ],
)
def test_an_option_names_a_target(said: dict[str, Any], meant: Target) -> None:
    assert target_of(**{**NOTHING, **said}) == meant


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({}, "where to?"),
        ({"to_earliest": True, "shift_by": 1}, "--to-earliest and --shift-by do not go together"),
        ({"to_time": "12"}, "--to-time '12' is not a time"),
        ({"to_time": "soon"}, "--to-time 'soon' is not a position"),
        ({"by_duration": "an hour"}, "--by-duration 'an hour' is not a duration"),
    ],
)
def test_any_other_number_of_targets_is_a_mistake(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(Failure) as failed:
        target_of(**{**NOTHING, **said})
    assert problem in failed.value.problem
    assert failed.value.status == USAGE


def planned(monkeypatch: pytest.MonkeyPatch, target: Target, committed: int | None) -> Move:
    """The move in a partition that holds 10 up to 100, where 40 is the first since any time."""
    known = {group_offsets.EARLIEST: 10, group_offsets.LATEST: 100, 5000: 40, 9000: -1}

    def offsets_at(_: object, places: list[Place], time_ms: int) -> dict[Place, int]:
        return dict.fromkeys(places, known[time_ms])

    monkeypatch.setattr(group_offsets, "offsets_at", offsets_at)
    at = {} if committed is None else {PLACE: committed}
    (move,) = group_reset.plan(None, target, [PLACE], at)  # type: ignore[arg-type]
    return move


@pytest.mark.parametrize(
    ("target", "committed", "new"),
    [
        (Target(Goal.EARLIEST), 50, 10),
        (Target(Goal.LATEST), 50, 100),
        (Target(Goal.CURRENT), 50, 50),
        (Target(Goal.CURRENT), None, 100),
        (Target(Goal.CURRENT), 4, 10),
        (Target(Goal.OFFSET, 70), None, 70),
        (Target(Goal.OFFSET, 7), 50, 10),
        (Target(Goal.OFFSET, 700), 50, 100),
        (Target(Goal.SHIFT, -5), 50, 45),
        (Target(Goal.SHIFT, -500), 50, 10),
        (Target(Goal.SHIFT, 500), 50, 100),
        (Target(Goal.TIME, 5000), 50, 40),
        (Target(Goal.TIME, 9000), 50, 100),
    ],
)
def test_an_offset_stays_within_what_the_partition_holds(
    monkeypatch: pytest.MonkeyPatch, target: Target, committed: int | None, new: int
) -> None:
    assert planned(monkeypatch, target, committed) == Move(PLACE, committed, new)


def test_nothing_shifts_where_nothing_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failure, match="nothing is committed in orders-0"):
        planned(monkeypatch, Target(Goal.SHIFT, 1), None)


def test_a_partition_without_a_leader_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "offsets_at", lambda *_: {})
    with pytest.raises(Failure, match="nobody leads orders-0"):
        group_reset.plan(None, Target(Goal.LATEST), [PLACE], {})  # type: ignore[arg-type]


def test_old_and_new_stand_side_by_side() -> None:
    table = group_reset.table([Move(PLACE, 5, 3), Move(Place("orders", 1), None, 9)])
    assert table.rows == [["orders", 0, 5, 3, "-2"], ["orders", 1, None, 9, None]]
