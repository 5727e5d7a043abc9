"""Moving a group's offsets: where to, partition by partition, and whether it may be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from penstock.cli import group_offsets, groups
from penstock.cli.durations import duration_ms
from penstock.cli.failure import USAGE, Failure
from penstock.cli.group_offsets import EARLIEST, LATEST
from penstock.cli.output import Table
from penstock.cli.places import Place, Wanted
from penstock.cli.positions import Kind, position_of
from penstock.cli.wire_cluster import Cluster


class Goal(Enum):
    """What a target counts from."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    SHIFT = "--shift-by"
    TIME = "--to-time"


class Target(NamedTuple):
    """Where to go in any partition; `number` is an offset, a shift or a time in milliseconds."""

    goal: Goal
    number: int = 0


class Move(NamedTuple):
    """One partition's old and new offset; `old` is None where nothing was committed."""

    place: Place
    old: int | None
    new: int


def check_scope(topics: Sequence[str] | None, all_topics: bool) -> None:
    """`Failure` unless the options say which partitions, and say it once."""
    if bool(topics) == all_topics:
        raise Failure(
            "which partitions? --topic and --all-topics do not go together"
            if all_topics
            else "which partitions?",
            "choose --topic TOPIC, --topic TOPIC:0,2 or --all-topics",
            USAGE,
        )


def target_of(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_time: str | None,
    by_duration: str | None,
    now_ms: int,
) -> Target:
    """The one target that the options name; `Failure` if they name none, or several."""
    named = {
        "--to-earliest": to_earliest or None,
        "--to-latest": to_latest or None,
        "--to-current": to_current or None,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--to-time": to_time,
        "--by-duration": by_duration,
    }
    said = [option for option, value in named.items() if value is not None]
    if len(said) != 1:
        raise Failure(
            f"where to? {' and '.join(said)} do not go together" if said else "where to?",
            f"choose one of {', '.join(named)}",
            USAGE,
        )
    if to_time is not None:
        return Target(Goal.TIME, _time_of(to_time, now_ms, "--to-time"))
    if by_duration is not None:
        return Target(Goal.TIME, max(0, now_ms - duration_ms(by_duration, "--by-duration")))
    number = to_offset if to_offset is not None else shift_by
    return Target(Goal(said[0]), number or 0)


def _time_of(text: str, now_ms: int, option: str) -> int:
    position = position_of(text, now_ms, option)
    if position.kind is not Kind.TIME:
        raise Failure(
            f"{option} {text!r} is not a time", "write one such as 2026-11-15T09:30", USAGE
        )
    return position.number


def scope(
    cluster: Cluster, group: str, wanted: Sequence[Wanted], committed: Mapping[Place, int]
) -> list[Place]:
    """The partitions to move in: those that are wanted, or for none all that are committed in."""
    if wanted:
        return cluster.places(wanted)
    if not committed:
        raise Failure(
            f"group {group} has committed nothing, so there is nothing to move",
            "name the partitions with --topic",
        )
    return list(committed)


def plan(
    cluster: Cluster, target: Target, places: Sequence[Place], committed: Mapping[Place, int]
) -> list[Move]:
    """Where each partition's offset would go. An offset never leaves what the partition holds."""
    starts = group_offsets.offsets_at(cluster, places, EARLIEST)
    ends = group_offsets.offsets_at(cluster, places, LATEST)
    timed: dict[Place, int] = {}
    if target.goal is Goal.TIME:
        timed = group_offsets.offsets_at(cluster, places, target.number)
    moves = []
    for place in places:
        if place not in ends or place not in starts:
            raise Failure(
                f"nobody leads {place}, so where it begins and ends is not known",
                "`penstock topic describe` shows who leads what",
            )
        old = committed.get(place)
        new = _new_offset(target, place, old, ends[place], timed.get(place, -1), starts[place])
        moves.append(Move(place, old, max(starts[place], min(new, ends[place]))))
    return moves


def _new_offset(
    target: Target, place: Place, old: int | None, end: int, timed: int, start: int
) -> int:
    match target.goal:
        case Goal.EARLIEST:
            return start
        case Goal.OFFSET:
            return target.number
        case Goal.TIME:
            return timed if timed >= 0 else end
        case Goal.CURRENT:
            return end if old is None else old
        case Goal.SHIFT:
            if old is None:
                raise Failure(
                    f"nothing is committed in {place}, so there is nothing to shift",
                    "leave it out with --topic TOPIC:PARTITIONS, or use another target",
                )
            return old + target.number
        case Goal.LATEST:
            return end


def refuse_if_active(cluster: Cluster, group: str) -> None:
    """`Failure` if the group has members: they would commit over what is set."""
    state, members = groups.state_of(cluster, group)
    if state not in ("empty", "dead"):
        raise Failure(
            f"group {group} is {state} with {members} member{'s' * (members != 1)}, "
            "and its offsets are theirs",
            "stop its members first; `penstock group describe` shows them",
        )


def table(moves: Sequence[Move]) -> Table:
    """Old and new offsets, for people."""
    return Table(
        ("topic", "partition", "old", "new", "change"),
        [
            [
                *move.place,
                move.old,
                move.new,
                None if move.old is None else f"{move.new - move.old:+d}",
            ]
            for move in moves
        ],
    )


def document(group: str, moves: Sequence[Move]) -> list[dict[str, object]]:
    """Old and new offsets, for programs."""
    return [
        {"group": group, **move.place._asdict(), "old": move.old, "new": move.new} for move in moves
    ]
