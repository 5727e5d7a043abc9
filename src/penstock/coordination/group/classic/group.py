"""A classic group: its members, its generation and its state.

The log holds what a new coordinator begins from: the members and assignments of the last stable
generation. What happens between two such generations, who has joined and who waits, lives in
memory only and may run ahead of the log; after a failover members join again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.records import group_key
from penstock.coordination.group.classic.sessions import keep_alive
from penstock.coordination.group.classic.states import NEXT, Event, State
from penstock.coordination.group.classic.subscriptions import topics_of
from penstock.model.errors import ErrorCode
from penstock.model.invariants import invariant

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.classic.member import Member, Protocols
    from penstock.model.ids import Millis
    from penstock.protocol.generated.group_records import GroupMetadataValue

CONSUMER = "consumer"
"""The protocol type of groups whose members are consumers."""


class ClassicGroup:
    """A group whose members assign among themselves; or one without members, just offsets."""

    kind = "classic"

    def __init__(self, group_id: str, since: Millis | None = None) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.since = since
        """When it came into this state, in wall time; None in what old versions wrote."""
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """Instance id to the member id that it has now."""
        self.topics: frozenset[str] | None = None
        """What consumers subscribe to, if it is known."""

        # From here on, only in memory.
        self.pending: set[str] = set()
        """Ids given to members that have not come back with them yet."""
        self.joins: dict[str, Ticket] = {}
        """Members that wait for the next generation."""
        self.syncs: dict[str, Ticket] = {}
        """Members that wait for their assignment."""
        self.unsynced: set[str] = set()
        """Members that know the generation and have not asked for their assignment yet."""
        self.settling_ms: int | None = None
        """In the first rebalance of an empty group: how much longer others may be waited for."""
        self.settling_step_ms = 0
        self.newcomers = False
        """Whether somebody joined since that was last looked at."""
        self.proposed: GroupMetadataValue | None = None
        """The record that this group wrote last: replaying it confirms what is known already."""
        self._support: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"ClassicGroup({self.group_id!r}, {self.state.value}, {self.generation})"

    # -- state ------------------------------------------------------------------------------------

    def move(self, event: Event, since: Millis | None) -> None:
        """Go where the table says."""
        after = NEXT.get((self.state, event))
        invariant(after is not None, f"group {self.group_id!r}: {event.name} in {self.state.value}")
        assert after is not None
        self.state = after
        self.since = since

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missing, not even somebody who was only given an id."""
        return len(self.joins) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take."""
        return max((it.rebalance_timeout_ms for it in self.members.values()), default=0)

    # -- members ----------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Let a member in. The first one decides on the protocol type and leads."""
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)
        self._count(member.protocols, 1)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Forget a member, or an id that was given out. Whoever is first now leads."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            if member.instance_id is not None:
                self.static_ids.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)

    def replace(self, old: Member, new: Member) -> None:
        """Put a static member in the place of its former self."""
        self._count(old.protocols, -1)
        self._count(new.protocols, 1)
        self.members = {
            new.member_id if it is old else it.member_id: new if it is old else it
            for it in self.members.values()
        }
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        if old.member_id in self.unsynced:
            self.unsynced.discard(old.member_id)
            self.unsynced.add(new.member_id)
        assert new.instance_id is not None
        self.static_ids[new.instance_id] = new.member_id

    def update(self, member: Member, protocols: Protocols) -> None:
        """A member joins again, perhaps with other protocols."""
        self._count(member.protocols, -1)
        self._count(protocols, 1)
        member.protocols = protocols

    def elect(self) -> bool:
        """Have a leader that has joined; False if nobody has."""
        if self.leader_id is not None and self.leader_id not in self.joins:
            joined = next((it for it in self.members if it in self.joins), None)
            if joined is None:
                return False
            self.leader_id = joined
        return self.leader_id is not None

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether there is such a member, and it is the newest of its name."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is not None and current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- protocols --------------------------------------------------------------------------------

    def _count(self, protocols: Protocols, change: int) -> None:
        for name in {name for name, _ in protocols}:
            self._support[name] = self._support.get(name, 0) + change

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these could take part."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        everyone = len(self.members)
        return any(self._support.get(name, 0) == everyone for name, _ in protocols)

    def choose_protocol(self) -> str:
        """What most members like best of what all of them can do."""
        everyone = len(self.members)
        candidates = {name for name, count in self._support.items() if count == everyone}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)

    def find_topics(self) -> frozenset[str] | None:
        """What the members subscribe to, as far as that can be known."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return frozenset()
        name = self.protocol_name
        if name is None:
            return None
        return topics_of(self.group_id, (it.metadata(name) for it in self.members.values()))

    # -- what every kind of group can be asked ----------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        is_transactional: bool,
        version: int,  # noqa: ARG002
        at: Moment,
        out: Effects,
    ) -> ErrorCode:
        if generation < 0 and self.state is State.EMPTY:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            error = self.check_member(member_id, instance_id)
            if error:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if is_transactional:
            return ErrorCode.NONE
        if self.state is State.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        keep_alive(self, self.members[member_id], at, out)
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:  # noqa: ARG002
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def subscribes_to(self, topic: str) -> bool:
        if self.topics is not None:
            return topic in self.topics
        return self.protocol_type == CONSUMER or not self.is_empty

    def offsets_expire_from(self) -> Millis | None:
        return self.since if self.is_empty and self.protocol_type else None

    def delete(self, out: Effects) -> None:
        out.record(group_key(self.group_id), None)
