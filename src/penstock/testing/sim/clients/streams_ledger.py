"""Which members of a streams group run which tasks, and what a coordinator may not do with them.

- A task is not given to a member while another one has it: one that has not given it up, and that
  was heard of a moment ago, or is later still taken for a member. Who was told to let go, and has
  not said for too long that it did, is no member any more. A coordinator that has been
  replaced and does not know it yet may say to a member that all is well, when others have its
  tasks; Kafka promises no more. So an answer counts only if who gave it knew of no older epoch.
- A member's epoch does not fall.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.testing.sim.clients.violation import Violation

Task = tuple[str, int]
"""A subtopology, and the partition that it works on."""


class Given(NamedTuple):
    """A member was told to run a task."""

    member: str
    got: float
    """When the answer came."""
    coordinator_epoch: int
    """In which its coordinator believed by then."""


class Hold:
    """A task in the hands of a member, as far as the member knows."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.rivals: list[Given] = []
        """Who else got it since. That is wrong if the member still is one."""


class TaskLedger:
    """Of one group."""

    def __init__(self, patience_seconds: float, owing_seconds: float) -> None:
        """A coordinator gives nobody up who was heard of less than `patience_seconds` ago, unless
        they may owe it a report of their tasks for `owing_seconds`."""
        self._patience = patience_seconds
        self._owing_seconds = owing_seconds
        self._owing: dict[str, float] = {}
        """Since when each member may have been told what it did not act on."""
        self._holds: dict[str, dict[Task, Hold]] = {}
        self._epochs: dict[str, int] = {}
        self._heard: dict[str, tuple[float, int]] = {}
        """When each member said what was heard last, and in which epoch of the coordinator."""

    def hear(self, member: str, sent: float, coordinator_epoch: int) -> None:
        """A member was told that it is one, when it had reported at `sent` to a coordinator that
        believed in this epoch."""
        self._heard[member] = sent, coordinator_epoch

    def owe(self, member: str, sent: float) -> None:
        """What a member said at `sent` was answered by what it has to run, or by nothing at all."""
        self._owing.setdefault(member, sent)

    def owe_nothing(self, member: str) -> None:
        """A member said what it runs, and was told nothing else."""
        self._owing.pop(member, None)

    def give(self, member: str, tasks: Iterable[Task], sent: float, given: Given) -> None:
        """A member was told to run these tasks, and no others; it had asked at `sent`."""
        own = self._holds.get(member, {})
        self._holds[member] = {task: own.get(task) or Hold(given) for task in tasks}
        for other, holds in self._holds.items():
            for task in self._holds[member].keys() & holds.keys() - own.keys():
                # Else the answer may be older than what the other one was told.
                if other != member and holds[task].given.got <= sent:
                    self._judge(other, task, given)
                    holds[task].rivals.append(given)

    def _judge(self, owner: str, task: Task, given: Given) -> None:
        heard, coordinator_epoch = self._heard[owner]
        ago = given.got - heard
        if given.got - self._owing.get(owner, given.got) >= self._owing_seconds:
            return
        if ago < self._patience and 0 <= given.coordinator_epoch <= coordinator_epoch:
            raise Violation(f"{given} got task {task} of {owner}, who was heard of {ago:.3f} s ago")

    def lives(self, member: str, epoch: int, sent: float, coordinator_epoch: int) -> None:
        """A member was one still when it said, at `sent`, that it has what it has."""
        before = self._epochs.get(member, 0)
        if epoch < before:
            raise Violation(f"{member} was at epoch {before}, and is told {epoch}")
        self._epochs[member] = epoch
        for task, hold in self._holds.get(member, {}).items():
            for rival in hold.rivals:
                if rival.got < sent and 0 <= rival.coordinator_epoch <= coordinator_epoch:
                    raise Violation(f"{member} has task {task}, and {rival} got it as well")

    def lost(self, member: str) -> None:
        """The member has nothing any more: it was fenced, or died, or left."""
        self._holds.pop(member, None)
        self._owing.pop(member, None)

    def running(self) -> list[Task]:
        """All tasks that members have, as often as they have them."""
        return sorted(task for holds in self._holds.values() for task in holds)
