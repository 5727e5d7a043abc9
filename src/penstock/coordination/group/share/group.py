"""A share group: its members, its target, and which partitions are ready for it.

Only replayed records change it, except for what is marked as being in memory only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock.coordination.group.share.readiness import NOTHING_READY, Readiness
from penstock.coordination.group.share.records import forget_group
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.assignors.wish import Partitions
    from penstock.coordination.group.share.member import Member

FIRST_EPOCH = 1
"""Of a group and of its target, before anybody has joined."""


class ShareGroup:
    """A group whose members may have the same partitions."""

    kind = "share"
    protocol_type = "share"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, Member] = {}
        self.names: Counter[str] = Counter()
        """How many members want a topic."""
        self.target_epoch = FIRST_EPOCH
        self.target_at = 0
        """When the target was computed, in wall time; 0 if never."""
        self.target: dict[str, Partitions] = {}
        self.ready: Readiness | None = None
        """None: nothing was ever made ready."""

        # From here on, only in memory.
        self.checked_at_epoch: int | None = None
        """The epoch for which the topics' hash was compared; None: compare with the next one."""
        self.deadlines: dict[str, Millis] = {}
        """When sessions of members that were heard of since their timer was set end."""
        self.asked_at: dict[bytes, Millis] = {}
        """Since when the state of a topic's partitions is being asked for."""
        self.eager_until: Millis | None = None
        """While members wait for something new: until when they may ask for it often."""
        self.must_look = True
        """Whether something may be missing: state of partitions, or partitions in the target."""

    def __repr__(self) -> str:
        return f"ShareGroup({self.group_id!r}, {self.state_name}, epoch {self.epoch})"

    # -- what replay changes ----------------------------------------------------------------------

    def put(self, member: Member) -> None:
        """A member as it is now; another version of it goes."""
        old = self.members.get(member.member_id)
        self.names = self.names_after(old, member)
        self.members[member.member_id] = member
        self.must_look = True

    def remove(self, member_id: str) -> None:
        """A member is gone."""
        old = self.members.pop(member_id, None)
        if old is not None:
            self.names = self.names_after(old, None)
            self.deadlines.pop(member_id, None)
            self.must_look = True

    # -- what steps ask ---------------------------------------------------------------------------

    def names_after(self, old: Member | None, new: Member | None) -> Counter[str]:
        """How many members want a topic once one has changed, come (no old one) or gone."""
        before, after = (frozenset() if it is None else it.topics for it in (old, new))
        if before == after:
            return self.names
        names = self.names.copy()
        names.subtract(before)
        names.update(after)
        return +names

    @property
    def readiness(self) -> Readiness:
        """Which partitions are ready."""
        return self.ready or NOTHING_READY

    @property
    def must_check_topics(self) -> bool:
        """Whether the group's topics may have changed since their hash was compared.

        A hash that was compared for an epoch that never came, as its record was refused, counts
        for nothing.
        """
        return self.checked_at_epoch is None or self.epoch < self.checked_at_epoch

    def lacks_partitions(self, topic_ids: Collection[bytes]) -> bool:
        """Whether there are partitions of these topics that are ready, and nobody's."""
        ready = self.readiness.initialized
        wanted = {it: ready[it].partitions for it in topic_ids if it in ready}
        if not wanted or not self.members:
            return False
        given: dict[bytes, set[int]] = {}
        for partitions in self.target.values():
            for topic_id, numbers in partitions.items():
                given.setdefault(topic_id, set()).update(numbers)
        return any(given.get(it, set()) != partitions for it, partitions in wanted.items())

    # -- what any group can be asked --------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_commit(
        self,
        member_id: str,  # noqa: ARG002
        instance_id: str | None,  # noqa: ARG002
        generation: int,  # noqa: ARG002
        is_transactional: bool,  # noqa: ARG002
        version: int,  # noqa: ARG002
        at: Moment,  # noqa: ARG002
        out: Effects,  # noqa: ARG002
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND  # no consumer group has this name

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:  # noqa: ARG002
        return ErrorCode.NONE  # there are none to be seen

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.names

    def offsets_expire_from(self) -> Millis | None:
        return None

    def delete(self, out: Effects) -> None:
        forget_group(out, self.group_id, self.members)
