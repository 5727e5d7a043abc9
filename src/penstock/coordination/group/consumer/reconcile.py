"""Leading a member from what it holds to what the target gives it.

A member first lets go of what it should not have. When it has said so, it moves on to the target's
epoch and gets what is free; what others still hold comes as they let it go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.consumer.member import NOTHING, Held, Member, State

if TYPE_CHECKING:
    from penstock.coordination.group.consumer.assignors.wish import Partitions


class Finding(Enum):
    """What a comparison of target and holdings shows."""

    MUST_REVOKE = auto()
    """It holds partitions that it should not have, and has not let them go."""
    MUST_WAIT = auto()
    """It should have partitions that others hold."""
    SETTLED = auto()
    """It has all that it should have."""


NEXT: Mapping[tuple[State, Finding], State] = {
    (State.STABLE, Finding.MUST_REVOKE): State.UNREVOKED_PARTITIONS,
    (State.STABLE, Finding.MUST_WAIT): State.UNRELEASED_PARTITIONS,
    (State.STABLE, Finding.SETTLED): State.STABLE,
    (State.UNREVOKED_PARTITIONS, Finding.MUST_REVOKE): State.UNREVOKED_PARTITIONS,
    (State.UNREVOKED_PARTITIONS, Finding.MUST_WAIT): State.UNRELEASED_PARTITIONS,
    (State.UNREVOKED_PARTITIONS, Finding.SETTLED): State.STABLE,
    (State.UNRELEASED_PARTITIONS, Finding.MUST_REVOKE): State.UNREVOKED_PARTITIONS,
    (State.UNRELEASED_PARTITIONS, Finding.MUST_WAIT): State.UNRELEASED_PARTITIONS,
    (State.UNRELEASED_PARTITIONS, Finding.SETTLED): State.STABLE,
    (State.UNKNOWN, Finding.MUST_REVOKE): State.UNREVOKED_PARTITIONS,
    (State.UNKNOWN, Finding.MUST_WAIT): State.UNRELEASED_PARTITIONS,
    (State.UNKNOWN, Finding.SETTLED): State.STABLE,
}

Owned = Mapping[bytes, Collection[int]]
"""What a client says that it has."""


class Goal(NamedTuple):
    """Where a member should get to."""

    epoch: int
    partitions: Partitions
    topics: Collection[bytes]
    """What it subscribes to now: a target may be older than that."""
    is_held: Callable[[bytes, int], bool]
    """Whether anybody holds a partition, be it only until it lets go."""


def reconcile(member: Member, goal: Goal, wish_changed: bool, owned: Owned | None) -> Member | None:
    """The member one step further, or itself; None if it must be fenced.

    `owned` is what the client has, or None if it did not say.
    """
    state = member.state
    if state is State.UNKNOWN:
        # A newer version knew what it was about. Only one who has nothing can go on from here.
        if owned is None or owned:
            return None
        return _advance(member, goal, owned, goal.epoch)
    if state is State.STABLE and member.epoch == goal.epoch:
        return _drop_unwanted(member, goal, owned) if wish_changed else member
    if state is State.UNREVOKED_PARTITIONS and _has_any(owned, member.revoking):
        return _drop_unwanted(member, goal, owned) if wish_changed else member
    return _advance(member, goal, owned, member.epoch)


def _advance(member: Member, goal: Goal, owned: Owned | None, epoch: int) -> Member:
    """Compare the target with what the member holds; `epoch` is where it stays while it revokes."""
    kept: dict[bytes, Mapping[int, int]] = {}
    unwanted: dict[bytes, Mapping[int, int]] = {}
    gained: dict[bytes, list[int]] = {}
    waits = False
    for topic_id in dict.fromkeys((*goal.partitions, *member.assigned)):
        wanted = goal.partitions.get(topic_id, frozenset())
        if topic_id not in goal.topics:
            wanted = frozenset()
        held = member.assigned.get(topic_id, {})
        keep = {number: since for number, since in held.items() if number in wanted}
        if keep:
            kept[topic_id] = keep
        if len(keep) < len(held):
            unwanted[topic_id] = {it: since for it, since in held.items() if it not in keep}
        own = member.revoking.get(topic_id, {})  # given back, and wanted again: nobody else's
        missing = [number for number in wanted if number not in keep]
        free = [it for it in missing if it in own or not goal.is_held(topic_id, it)]
        waits = waits or len(free) < len(missing)
        if free:
            gained[topic_id] = free
    if unwanted and _has_any(owned, unwanted):
        state = NEXT[member.state, Finding.MUST_REVOKE]
        return member.moved_to(epoch, state=state, assigned=kept, revoking=unwanted)
    for topic_id, numbers in gained.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(numbers, goal.epoch)}
    state = NEXT[member.state, Finding.MUST_WAIT if waits else Finding.SETTLED]
    return member.moved_to(goal.epoch, state=state, assigned=kept, revoking=NOTHING)


def _drop_unwanted(member: Member, goal: Goal, owned: Owned | None) -> Member:
    """The target will follow. What the member no longer subscribes to goes at once."""
    unwanted = {it: held for it, held in member.assigned.items() if it not in goal.topics}
    if not unwanted:
        return member
    assigned = {it: held for it, held in member.assigned.items() if it not in unwanted}
    revoking = dict(member.revoking)
    for topic_id, held in unwanted.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **held}
    if _has_any(owned, revoking):
        state = NEXT[member.state, Finding.MUST_REVOKE]
        return member.moved_to(member.epoch, state=state, assigned=assigned, revoking=revoking)
    return member.moved_to(member.epoch, assigned=assigned)


def _has_any(owned: Owned | None, held: Held) -> bool:
    """Whether the client has some of these. If it does not say, it may."""
    if owned is None:
        return True
    return any(
        number in held[topic_id]
        for topic_id, numbers in owned.items()
        if topic_id in held
        for number in numbers
    )
