"""Tasks: the pieces of work of an application. A subtopology has one for each input partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

Tasks = Mapping[str, frozenset[int]]
"""Partition numbers by subtopology."""

Since = Mapping[str, Mapping[int, int]]
"""The same, each with the epoch at which its holder got it."""

NO_TASKS: Tasks = {}
NONE_SINCE: Since = {}

Task = tuple[str, int]


class TaskIds(Protocol):
    """Tasks of one subtopology, as requests and records carry them."""

    subtopology_id: str
    partitions: list[int]


class Assignment(NamedTuple):
    """Tasks to have: to run, to keep a copy of, to get warm for."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


class Held(NamedTuple):
    """Tasks that a member has. Only active ones commit offsets, so only they have epochs."""

    active: Since = NONE_SINCE
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def numbers(self) -> Assignment:
        """The same without the epochs."""
        active = {it: frozenset(since) for it, since in self.active.items()}
        return Assignment(active, self.standby, self.warmup)


NO_ASSIGNMENT = Assignment()
NOTHING = Held()


def tasks_of(ids: Iterable[TaskIds]) -> Tasks:
    """As the machine keeps them; a subtopology without any is not named."""
    found: dict[str, frozenset[int]] = {}
    for it in ids:
        if it.partitions:
            found[it.subtopology_id] = found.get(it.subtopology_id, frozenset()).union(
                it.partitions
            )
    return found


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterable[Task]:
    """One after the other."""
    return ((subtopology, number) for subtopology, some in tasks.items() for number in some)


def has_any(owned: Assignment, held: Held) -> bool:
    """Whether some of what a member must let go is among what it says to have."""
    return any(
        not numbers.isdisjoint(unwanted[subtopology])
        for tasks, unwanted in zip(owned, held, strict=True)
        for subtopology, numbers in tasks.items()
        if subtopology in unwanted
    )


def is_within(owned: Assignment, held: Held) -> bool:
    """Whether a member says to have nothing but what it was given."""
    return all(
        subtopology in given and all(number in given[subtopology] for number in numbers)
        for tasks, given in zip(owned, held, strict=True)
        for subtopology, numbers in tasks.items()
    )
