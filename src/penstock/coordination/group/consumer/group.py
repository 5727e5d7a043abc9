"""A consumer group: its members, its target, and who holds which partition.

Only replayed records change it, except for what is marked as being in memory only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.member import Held, Member
from penstock.coordination.group.consumer.records import forget_group
from penstock.coordination.group.consumer.subscriptions import Subscriptions
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.model.invariants import invariant

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.assignors.wish import Partitions
    from penstock.metadata.topics import TopicsImage

FIRST_EPOCH = 1
"""Of a group and of its target, before anybody has joined."""

NO_TARGET: Partitions = {}

_COMMIT_VERSION_MIN = 9
"""The first OffsetCommit in which a member of this protocol can say its epoch."""


class ConsumerGroup:
    """A group whose members get their partitions from the coordinator."""

    kind = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """Instance id to the member id that it has now."""
        self.subscriptions = Subscriptions()
        self.target_epoch = FIRST_EPOCH
        self.target_at = 0
        """When the target was computed, in wall time; 0 if never."""
        self.target: dict[str, Partitions] = {}
        self.holders: dict[tuple[bytes, int], int] = {}
        """Partitions that somebody holds, with the epoch of the member that does."""
        self.classic_members = 0
        """How many of the members speak the classic protocol."""
        self.has_partition_metadata = False
        """Whether the log holds a record that only Kafka 4.0 needed."""

        # From here on, only in memory.
        self.checked_at_epoch: int | None = None
        """The epoch for which the topics' hash was compared; None: compare with the next one."""
        self.deadlines: dict[str, Millis] = {}
        """When sessions of members that were heard of since their timer was set end."""
        self.resolving_until = Millis(0)
        """While regular expressions are being resolved: when to take that for lost."""
        self.rejoining: set[str] = set()
        """Classic members that were told to join again, and have not."""

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id!r}, {self.state_name}, epoch {self.epoch})"

    # -- what replay changes ----------------------------------------------------------------------

    def put(self, member: Member) -> None:
        """A member as it is now; another version of it goes."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.subscriptions.replace(old, member)
        if old is not None:
            self._release(old)
        self._hold(member, member.assigned)
        self._hold(member, member.revoking)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.classic_members += (member.classic is not None) - (
            old is not None and old.classic is not None
        )

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self.subscriptions.replace(old, None)
        self._release(old)
        if old.instance_id is not None and self.static_ids.get(old.instance_id) == member_id:
            del self.static_ids[old.instance_id]
        self.classic_members -= old.classic is not None
        self.deadlines.pop(member_id, None)
        self.rejoining.discard(member_id)

    def _hold(self, member: Member, held: Held) -> None:
        holders, epoch = self.holders, member.epoch
        for topic_id, numbers in held.items():
            for number in numbers:
                before = holders.get((topic_id, number))
                invariant(
                    before is None or before < epoch,
                    f"group {self.group_id!r}: partition {number} is given to "
                    f"{member.member_id!r} at epoch {epoch} and was not let go at {before}",
                )
                holders[topic_id, number] = epoch

    def _release(self, member: Member) -> None:
        for held in (member.assigned, member.revoking):
            for topic_id, numbers in held.items():
                for number in numbers:
                    if self.holders.get((topic_id, number)) == member.epoch:
                        del self.holders[topic_id, number]

    def is_held(self, topic_id: bytes, number: int) -> bool:
        """Whether anybody holds a partition, be it only until it lets go."""
        return (topic_id, number) in self.holders

    # -- what steps ask ---------------------------------------------------------------------------

    def static_member(self, instance_id: str | None) -> Member | None:
        """The member that has this instance id now."""
        if instance_id is None:
            return None
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    @property
    def must_check_topics(self) -> bool:
        """Whether the group's topics may have changed since their hash was compared.

        A hash that was compared for an epoch that never came, as its record was refused, counts
        for nothing.
        """
        return self.checked_at_epoch is None or self.epoch < self.checked_at_epoch

    def preferred_assignor(self, default: str) -> str:
        """The one that most members ask for."""
        return most_wanted(self.members.values(), default)

    def check_partitions(
        self,
        member_id: str,
        generation: int,
        partitions: Iterable[tuple[str, int]],
        topics: TopicsImage,
    ) -> ErrorCode:
        """Whether a member that `check_commit` lets through may commit for these partitions.

        At an older epoch it may if it has held them ever since: nobody else can have committed.
        """
        member = self.members.get(member_id)
        if member is None or generation < 0 or generation >= member.epoch:
            return ErrorCode.NONE
        for name, number in partitions:
            topic = topics.by_name.get(name)
            since = None if topic is None else member.epoch_of(topic.id, number)
            if since is None or generation < since:
                return _stale(member)
        return ErrorCode.NONE

    # -- what any group can be asked --------------------------------------------------------------

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
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
        if not is_transactional and member.classic is None and version < _COMMIT_VERSION_MIN:
            return ErrorCode.UNSUPPORTED_VERSION
        return _stale(member) if generation > member.epoch else ErrorCode.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else _stale(member)

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def subscribes_to(self, topic: str) -> bool:
        return self.subscriptions.wants(topic)

    def offsets_expire_from(self) -> Millis | None:
        return None

    def delete(self, out: Effects) -> None:
        forget_group(out, self.group_id, self.members, self.subscriptions.resolved)


def most_wanted(members: Iterable[Member], default: str) -> str:
    """The assignor that most members ask for; `default` if none does."""
    votes = Counter(it.assignor for it in members if it.assignor is not None)
    # Kafka's hash table has "uniform" before "range", and the first of equals wins.
    return max(votes, key=lambda name: (votes[name], name), default=default)


def _stale(member: Member) -> ErrorCode:
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH
