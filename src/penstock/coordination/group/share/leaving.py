"""Members that go, or are not heard of any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.hashing import group_hash
from penstock.coordination.group.consumer.refusal import Refusal, unknown_member
from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.records import forget_member, write_epoch
from penstock.coordination.group.share.sessions import end_session
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.share.member import Member
    from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest


def leave(
    shard: GroupShard, request: ShareGroupHeartbeatRequest, out: Effects
) -> ShareGroupHeartbeatResponse | Refusal:
    """A member says that it goes."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ShareGroup):
        return not_a_share_group(group, request.group_id)
    member = group.members.get(request.member_id)
    if member is None:
        return unknown_member(request.member_id, group.group_id)
    fence(shard, group, member, out)
    return ShareGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )


def fence(shard: GroupShard, group: ShareGroup, member: Member, out: Effects) -> None:
    """Take a member out of the group. What it has locked is let go where its partitions are led."""
    forget_member(out, group.group_id, member.member_id)
    end_session(group, member.member_id, out)
    around = shard.consumers
    left = group.names_after(member, None)
    metadata_hash = group_hash(left, around.image, around.hashes)
    write_epoch(out, group.group_id, group.epoch + 1, metadata_hash)


def not_a_share_group(group: object | None, group_id: str) -> Refusal:
    """No group has this name, or one of another kind has."""
    what = "not found" if group is None else "is not a share group"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
