"""How classic groups come to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.records import member_of
from penstock.coordination.group.classic.states import State
from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.group_records import GroupMetadataValue

GROUPS_MAX = 100_000
"""Groups in one shard. Whoever invents names has to stop somewhere."""


def simple_group(shard: GroupShard, group_id: str) -> ClassicGroup:
    """A group for offsets that somebody commits without being a member of anything.

    Only in memory: its offsets are what the log knows of it.
    """
    return new_group(shard, group_id, None)


def new_group(shard: GroupShard, group_id: str, since: Millis | None) -> ClassicGroup:
    """An empty group, in memory."""
    group = shard.groups[group_id] = ClassicGroup(group_id, since)
    return group


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """A group as the log knows it: stable if it has members."""
    group = ClassicGroup(group_id)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or ""
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    for member in value.members:
        group.add(member_of(member, value.protocol))
    if group.members:
        group.state = State.STABLE
    if value.current_state_timestamp != -1:
        group.since = Millis(value.current_state_timestamp)
    group.topics = group.find_topics()
    return group
