"""Leading a member from the tasks it has to those that the target gives it.

A member first lets go of what it should not have. When it has said so, it moves on to the target's
epoch and gets what is free: an active task that nobody runs, a copy of which its process has none.
The rest comes as others let it go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.streams.member import Member, State
from penstock.coordination.group.streams.tasks import (
    NOTHING,
    Assignment,
    Held,
    Since,
    Task,
    Tasks,
    has_any,
)

if TYPE_CHECKING:
    from penstock.coordination.group.streams.group import StreamsGroup


class Goal(NamedTuple):
    """Where a member should get to."""

    epoch: int
    tasks: Assignment


def reconcile(
    group: StreamsGroup, member: Member, goal: Goal, owned: Assignment | None
) -> Member | None:
    """The member one step further, or itself; None if it must be fenced.

    `owned` is what the client has, or None if it did not say.
    """
    state, epoch = member.state, member.epoch
    if state is State.STABLE and epoch == goal.epoch:
        return member
    if state is State.UNREVOKED_TASKS:
        if owned is None or has_any(owned, member.revoking):
            return member
        epoch += 1  # what it is told next is told at another epoch, as Kafka counts
    elif state is State.UNKNOWN:
        # A newer version knew what it was about. Only one who has nothing can go on from here.
        if owned is None or any(owned):
            return None
        epoch = goal.epoch
    return _advance(group, member, goal, owned, epoch)


def _advance(
    group: StreamsGroup, member: Member, goal: Goal, owned: Assignment | None, epoch: int
) -> Member:
    """Compare the target with what the member has; `epoch` is where it stays while it revokes."""
    has, process = member.assigned, member.process_id
    active = _compare(
        {it: frozenset(since) for it, since in has.active.items()},
        goal.tasks.active,
        lambda task: group.is_run(task) or group.has_copy(process, task),
    )
    standby = _compare(
        has.standby, goal.tasks.standby, lambda task: group.has_process(process, task)
    )
    warmup = _compare(has.warmup, goal.tasks.warmup, lambda task: group.has_process(process, task))
    unwanted = Held(_epochs(active.unwanted, has.active), standby.unwanted, warmup.unwanted)
    if not unwanted.is_empty and (owned is None or has_any(owned, unwanted)):
        kept = Held(_epochs(active.kept, has.active), standby.kept, warmup.kept)
        return member.moved_to(epoch, State.UNREVOKED_TASKS, kept, unwanted)
    assigned = Held(
        _joined(_epochs(active.kept, has.active), active.gained, goal.epoch),
        _union(standby.kept, standby.gained),
        _union(warmup.kept, warmup.gained),
    )
    waits = active.waits or standby.waits or warmup.waits
    state = State.UNRELEASED_TASKS if waits else State.STABLE
    return member.moved_to(goal.epoch, state, assigned, NOTHING)


class _Comparison(NamedTuple):
    """What becomes of one kind of tasks."""

    kept: Tasks
    unwanted: Tasks
    gained: Tasks
    waits: bool
    """Whether some that it should have are not free."""


def _compare(has: Tasks, wanted: Tasks, is_taken: Callable[[Task], bool]) -> _Comparison:
    kept: dict[str, frozenset[int]] = {}
    unwanted: dict[str, frozenset[int]] = {}
    gained: dict[str, frozenset[int]] = {}
    waits = False
    for subtopology in {**wanted, **has}:
        having = has.get(subtopology, frozenset())
        wants = wanted.get(subtopology, frozenset())
        missing = wants - having
        free = frozenset(it for it in missing if not is_taken((subtopology, it)))
        waits = waits or len(free) < len(missing)
        for found, some in ((kept, having & wants), (unwanted, having - wants), (gained, free)):
            if some:
                found[subtopology] = some
    return _Comparison(kept, unwanted, gained, waits)


def _epochs(tasks: Tasks, since: Since) -> dict[str, Mapping[int, int]]:
    return {it: {each: since[it][each] for each in some} for it, some in tasks.items()}


def _joined(kept: dict[str, Mapping[int, int]], gained: Tasks, epoch: int) -> Since:
    for it, some in gained.items():
        kept[it] = {**kept.get(it, {}), **dict.fromkeys(some, epoch)}
    return kept


def _union(some: Tasks, others: Mapping[str, Iterable[int]]) -> Tasks:
    return {it: some.get(it, frozenset()).union(others.get(it, ())) for it in {**some, **others}}
