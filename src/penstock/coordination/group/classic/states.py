"""The states of a classic group, and what leads from one to the next."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where a group stands. The values are the names that DescribeGroups and ListGroups print."""

    EMPTY = "Empty"
    """No members; there may be offsets."""
    PREPARING = "PreparingRebalance"
    """Members are asked to join again, and those who have wait for the others."""
    COMPLETING = "CompletingRebalance"
    """All know the new generation; its leader works out who does what."""
    STABLE = "Stable"
    """Everyone can fetch their assignment and does their work."""
    DEAD = "Dead"
    """Deleted. Nothing follows."""


class Event(Enum):
    """What moves a group."""

    REBALANCE = "a member comes, goes, fails or changes"
    JOINED = "all have joined, or time is up"
    DESERTED = "time is up and nobody has joined"
    ASSIGNED = "the leader's assignment is in the log"
    DELETED = "the group's record is deleted"


NEXT: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.REBALANCE): State.PREPARING,
    (State.STABLE, Event.REBALANCE): State.PREPARING,
    (State.COMPLETING, Event.REBALANCE): State.PREPARING,
    (State.PREPARING, Event.JOINED): State.COMPLETING,
    (State.PREPARING, Event.DESERTED): State.EMPTY,
    (State.COMPLETING, Event.ASSIGNED): State.STABLE,
    (State.EMPTY, Event.DELETED): State.DEAD,
    (State.PREPARING, Event.DELETED): State.DEAD,
    (State.COMPLETING, Event.DELETED): State.DEAD,
    (State.STABLE, Event.DELETED): State.DEAD,
}
"""All there is. Whatever is not in this table must not happen."""
