"""A streams group: its topology, its members, its target, and which process has which task.

Only replayed records change it, except for what is marked as being in memory only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.coordination.group.streams.records import forget_group
from penstock.coordination.group.streams.tasks import Assignment, Held, Task, each_task
from penstock.model.errors import ErrorCode
from penstock.model.invariants import invariant

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.streams.configuring import Configured
    from penstock.coordination.group.streams.member import Member
    from penstock.coordination.group.streams.topology import Topology
    from penstock.metadata.topics import TopicsImage
    from penstock.model.ids import Millis

FIRST_EPOCH = 1
"""Of a group and of its target, before anybody has joined."""

NOT_VALIDATED = -1
"""The epoch of no topology."""

_COMMIT_VERSION_MIN = 9
"""The first OffsetCommit in which a member of this protocol can say its epoch."""


class StreamsGroup:
    """A group whose members get tasks of an application from the coordinator."""

    kind = "streams"
    protocol_type = "streams"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_epoch = 0
        """The epoch of the topology that was found to be fit to run, or NOT_VALIDATED."""
        self.configs: Mapping[str, str] = {}
        """How tasks were to be assigned at the group's epoch."""
        self.topology: Topology | None = None
        self.members: dict[str, Member] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_at = 0
        """When the target was computed, in wall time; 0 if never."""
        self.target: dict[str, Assignment] = {}
        self._runners: dict[Task, str] = {}
        """Active tasks that somebody has, with the process that does."""
        self._copies: dict[Task, Counter[str]] = {}
        """Standbys and warm-ups, with the processes that have them."""

        # From here on, only in memory.
        self.configured: Configured | None = None
        self.checked_at_epoch: int | None = None
        """The epoch for which the topics' hash was compared; None: compare with the next one."""
        self.deadlines: dict[str, Millis] = {}
        """When sessions of members that were heard of since their timer was set end."""
        self.shutdown_by: str | None = None
        """The member that wants the whole application to stop."""
        self.endpoints_epoch = 0
        """Rises when members with an endpoint get other tasks."""

    def __repr__(self) -> str:
        return f"StreamsGroup({self.group_id!r}, {self.state_name}, epoch {self.epoch})"

    # -- what replay changes ----------------------------------------------------------------------

    def put(self, member: Member) -> None:
        """A member as it is now; another version of it goes."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None:
            self._release(old.process_id, old.assigned)
            self._release(old.process_id, old.revoking)
        self._hold(member.process_id, member.assigned)
        self._hold(member.process_id, member.revoking)

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._release(old.process_id, old.assigned)
        self._release(old.process_id, old.revoking)
        self.deadlines.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None

    def _hold(self, process_id: str, held: Held) -> None:
        for task in each_task(held.active):
            invariant(
                task not in self._runners,
                f"group {self.group_id!r}: task {task} is given to process {process_id!r}, "
                f"and {self._runners.get(task)!r} has not let it go",
            )
            self._runners[task] = process_id
        for tasks in (held.standby, held.warmup):
            for task in each_task(tasks):
                self._copies.setdefault(task, Counter())[process_id] += 1

    def _release(self, process_id: str, held: Held) -> None:
        for task in each_task(held.active):
            self._runners.pop(task, None)
        for tasks in (held.standby, held.warmup):
            for task in each_task(tasks):
                having = self._copies[task]
                having[process_id] -= 1
                if not having[process_id]:
                    del having[process_id]
                if not having:
                    del self._copies[task]

    # -- what steps ask ---------------------------------------------------------------------------

    def is_run(self, task: Task) -> bool:
        """Whether anybody runs a task, be it only until it lets go."""
        return task in self._runners

    def has_process(self, process_id: str, task: Task) -> bool:
        """Whether a process has anything of a task: it can have it but once."""
        return self._runners.get(task) == process_id or self.has_copy(process_id, task)

    def has_copy(self, process_id: str, task: Task) -> bool:
        """Whether a process keeps a copy of a task's state."""
        copies = self._copies.get(task)
        return copies is not None and process_id in copies

    @property
    def must_check_topics(self) -> bool:
        """Whether the group's topics may have changed since their hash was compared.

        A hash that was compared for an epoch that never came, as its record was refused, counts
        for nothing.
        """
        return self.checked_at_epoch is None or self.epoch < self.checked_at_epoch

    def check_partitions(
        self,
        member_id: str,
        generation: int,
        partitions: Iterable[tuple[str, int]],
        topics: TopicsImage,  # noqa: ARG002 - tasks go by the names of topics
    ) -> ErrorCode:
        """Whether a member that `check_commit` lets through may commit for these partitions.

        At an older epoch it may if it has run their tasks ever since: nobody else did.
        """
        member = self.members.get(member_id)
        if member is None or generation < 0 or generation >= member.epoch:
            return ErrorCode.NONE
        subtopology_of = {} if self.topology is None else self.topology.subtopology_of
        for topic, number in partitions:
            subtopology = subtopology_of.get(topic)
            since = None if subtopology is None else member.since(subtopology, number)
            if since is None or generation < since:
                return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    # -- what any group can be asked --------------------------------------------------------------

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(it.is_settled_at(self.target_epoch) for it in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        is_transactional: bool,
        version: int,
        at: Moment,  # noqa: ARG002 - here a commit is no sign of life, as in Kafka
        out: Effects,  # noqa: ARG002
    ) -> ErrorCode:
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        if is_transactional and generation == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and version < _COMMIT_VERSION_MIN:
            return ErrorCode.UNSUPPORTED_VERSION
        if generation < 0 or generation > member.epoch:
            return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def subscribes_to(self, topic: str) -> bool:
        if not self.members or self.topology is None:
            return False
        return topic in self.topology.subtopology_of

    def offsets_expire_from(self) -> Millis | None:
        return None

    def delete(self, out: Effects) -> None:
        forget_group(out, self.group_id, self.members)
