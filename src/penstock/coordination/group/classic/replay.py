"""What a record of a classic group changes in the shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.creating import group_of
from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.states import Event, State
from penstock.protocol.generated.group_records import GroupMetadataKey

if TYPE_CHECKING:
    from penstock.coordination.group.shard import GroupShard, Replay
    from penstock.protocol.generated.group_records import GroupMetadataValue


def replay_group(
    shard: GroupShard,
    offset: int,  # noqa: ARG001
    key: GroupMetadataKey,
    value: GroupMetadataValue | None,
    producer_id: int,  # noqa: ARG001
) -> None:
    """The group is what the record says; the one who wrote it just now knows more than that."""
    group = shard.groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            del shard.groups[key.group]
            group.move(Event.DELETED, group.since)
    elif isinstance(group, ClassicGroup) and group.proposed is value:
        _confirm(group, value)
    else:
        shard.groups[key.group] = group_of(key.group, value)


def _confirm(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """The log took the group's own record: if it holds assignments, they are in force."""
    group.proposed = None
    if not value.members:
        return
    for member in value.members:
        group.members[member.member_id].assignment = member.assignment
    if group.state is State.COMPLETING:
        group.move(Event.ASSIGNED, group.since)
    else:
        # A static member came back to its place, and may want other topics than before.
        group.topics = group.find_topics()


REPLAY: dict[int, Replay] = {GroupMetadataKey.API_KEY: replay_group}
