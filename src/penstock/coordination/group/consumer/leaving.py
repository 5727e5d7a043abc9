"""Members that go: for good, for a while, or because they are not heard of any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.hashing import group_hash
from penstock.coordination.group.consumer.member import AWAY, NOTHING, Member
from penstock.coordination.group.consumer.records import (
    forget_member,
    forget_regex,
    write_current,
    write_epoch,
)
from penstock.coordination.group.consumer.refusal import (
    Refusal,
    fenced_instance,
    unknown_instance,
    unknown_member,
)
from penstock.coordination.group.consumer.sessions import end_session
from penstock.coordination.group.migration.downgrading import downgrade_without
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def leave(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, at: Moment, out: Effects
) -> ConsumerGroupHeartbeatResponse | Refusal:
    """A member says that it goes. A static one may say that it will be back."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        return group_not_found(group, request.group_id)
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            return unknown_member(request.member_id, group.group_id)
    else:
        member = group.static_member(request.instance_id)
        if member is None:
            return unknown_instance(request.instance_id)
        if member.member_id != request.member_id:
            return fenced_instance(request.member_id, request.instance_id, member.member_id)
    if request.instance_id is not None and request.member_epoch == AWAY:
        write_current(out, group.group_id, _away(member))
    else:
        fence(shard, group, [member], at, out)
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )


def group_not_found(group: object | None, group_id: str) -> Refusal:
    """No group has this name, or one of another kind has."""
    if group is None:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _away(member: Member) -> Member:
    """It keeps what it has, from the beginning of time: it may commit when it is back."""
    assigned = {topic: dict.fromkeys(held, 0) for topic, held in member.assigned.items()}
    return member._replace(epoch=AWAY, assigned=assigned, revoking=NOTHING)


def fence(
    shard: GroupShard, group: ConsumerGroup, members: Sequence[Member], at: Moment, out: Effects
) -> None:
    """Take members out of the group. What they had is free at once."""
    if not members or downgrade_without(shard, group, members, at, out):
        return
    for member in members:
        forget_member(out, group.group_id, member.member_id)
        end_session(group, member.member_id, out)
    left = group.subscriptions.after([(member, None) for member in members])
    for regex in group.subscriptions.regexes:
        if regex not in left.regexes:
            forget_regex(out, group.group_id, regex)
    around = shard.consumers
    metadata_hash = group_hash(left.topics, around.image, around.hashes)
    write_epoch(out, group.group_id, group.epoch + 1, metadata_hash)
