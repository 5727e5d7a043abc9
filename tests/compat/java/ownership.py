"""Who owned which partition when, from what the members of a group told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from tests.compat.java.programs import Event

_FOREVER = float("inf")


class Ownership(NamedTuple):
    """One member's time with one partition."""

    partition: int
    begin: float
    end: float
    member: str
    ending: str
    """The event that ended it: "revoked", "lost", "closed", "killed"; or "" if it lasts."""


def ownerships(events: Iterable[Event], killed: Mapping[str, float]) -> list[Ownership]:
    """All times of ownership; `killed` tells when which member ended without a word."""
    found: list[Ownership] = []
    held: dict[tuple[str, int], float] = {}

    def let_go(member: str, partitions: Iterable[int], at: float, ending: str) -> None:
        for partition in partitions:
            begin = held.pop((member, partition), None)
            if begin is not None:
                found.append(Ownership(partition, begin, at, member, ending))

    for event in sorted(events, key=lambda each: float(each["at"])):
        member, what = event["member"], event["event"]
        if what == "assigned":
            held |= {(member, partition): event["at"] for partition in event["partitions"]}
        elif what in ("revoked", "lost"):
            let_go(member, event["partitions"], event["at"], what)
        elif what == "closed":
            let_go(member, _held_by(held, member), event["at"], what)
    for member, at in killed.items():
        let_go(member, _held_by(held, member), at, "killed")
    lasting = [Ownership(partition, at, _FOREVER, member, "")
               for (member, partition), at in held.items()]  # fmt: skip
    return sorted(found + lasting)


def owners(events: Iterable[Event], gone: Iterable[str] = ()) -> dict[int, str]:
    """The member that owns each partition now."""
    everything = ownerships(events, dict.fromkeys(gone, 0.0))
    return {each.partition: each.member for each in everything if each.end == _FOREVER}


def owned_twice(events: Iterable[Event], killed: Mapping[str, float]) -> list[str]:
    """Every partition that two live members owned at once.

    A member whose partitions were lost hears of it late: the group gave them away before.
    """
    ordered = ownerships(events, killed)
    return [
        f"{first} and {second}"
        for first, second in pairwise(ordered)
        if first.partition == second.partition
        and second.begin < first.end
        and first.ending != "lost"
    ]


def _held_by(held: Mapping[tuple[str, int], float], member: str) -> list[int]:
    return [partition for owner, partition in held if owner == member]
