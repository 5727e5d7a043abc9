"""LeaveGroup: members go, or an operator sends static ones away by their instance id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.rebalancing import dismiss, rebalance
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.migration.speaking import leave as leave_consumers
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard

Leaver = tuple[str, str | None]
"""Member id, or "" if it is not known; instance id of a static member."""


def leave(
    shard: GroupShard, at: Moment, out: Effects, group_id: str, leavers: Sequence[Leaver]
) -> list[ErrorCode]:
    """Let go who is there, and answer for each whether it was."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return leave_consumers(shard, group, at, out, leavers)
    if not isinstance(group, ClassicGroup):
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
    errors = [_let_go(group, member_id, instance_id, out) for member_id, instance_id in leavers]
    if not group.is_empty and ErrorCode.NONE in errors:
        rebalance(shard, group, at, out)
    return errors


def _let_go(
    group: ClassicGroup, member_id: str, instance_id: str | None, out: Effects
) -> ErrorCode:
    if not member_id:
        found = None if instance_id is None else group.static_ids.get(instance_id)
        if found is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = found
    elif member_id not in group.pending:
        error = group.check_member(member_id, instance_id)
        if error:
            return error
    dismiss(group, member_id, out)
    return ErrorCode.NONE
