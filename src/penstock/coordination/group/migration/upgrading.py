"""A classic group becomes a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard


def consumer_group_for(
    shard: GroupShard, group_id: str, joins: bool, at: Moment, out: Effects
) -> ConsumerGroup | Refusal:
    """The consumer group of this name. Who joins may make it, or have a classic one converted."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if not joins:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if group is None:
        return ConsumerGroup(group_id)
    if group.is_empty:
        group.delete(out)
        return ConsumerGroup(group_id)
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
