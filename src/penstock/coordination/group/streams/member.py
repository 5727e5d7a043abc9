"""A member of a streams group: a thread of an application's instance, and the tasks it has."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.coordination.group.streams.tasks import NOTHING, Held

JOINING = 0
LEFT = -1
AWAY = -2
"""Epochs with a meaning of their own."""

NO_TAGS: Mapping[str, str] = {}


class State(IntEnum):
    """How far a member has come towards its target; the numbers are those in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """It has been told to let tasks go, and has not said that it did."""
    UNRELEASED_TASKS = 3
    """It has all but what others have not let go yet."""
    UNKNOWN = 127
    """Written by a newer version."""


class Endpoint(NamedTuple):
    """Where an instance answers queries about its state."""

    host: str
    port: int


class Member(NamedTuple):
    """One version of a member; a change makes another one."""

    member_id: str
    epoch: int = JOINING
    previous_epoch: int = 0
    state: State = State.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    """Of the instance: its threads share one disk, and one copy of a state."""
    endpoint: Endpoint | None = None
    tags: Mapping[str, str] = NO_TAGS
    assigned: Held = NOTHING
    revoking: Held = NOTHING
    """What it must let go; still its own until it says that it did."""

    def moved_to(self, epoch: int, state: State, assigned: Held, revoking: Held) -> Member:
        """The member at an epoch, perhaps the same one again."""
        return self._replace(
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    def is_settled_at(self, epoch: int) -> bool:
        """Whether it has all that the target of this epoch gives it, and nothing else."""
        return self.state is State.STABLE and self.epoch == epoch

    def since(self, subtopology: str, number: int) -> int | None:
        """From which epoch on it has an active task, or None if it has not."""
        for held in (self.assigned, self.revoking):
            epoch = held.active.get(subtopology, {}).get(number)
            if epoch is not None:
                return epoch
        return None
