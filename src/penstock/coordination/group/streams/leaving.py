"""Members that go: because they say so, or because they are not heard of any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.refusal import Refusal, unknown_member
from penstock.coordination.group.streams.group import StreamsGroup
from penstock.coordination.group.streams.records import forget_member, write_epoch
from penstock.coordination.group.streams.sessions import end_session
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.streams_group_heartbeat import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.streams.member import Member
    from penstock.protocol.generated.streams_group_heartbeat import StreamsGroupHeartbeatRequest


def leave(
    shard: GroupShard, request: StreamsGroupHeartbeatRequest, out: Effects
) -> StreamsGroupHeartbeatResponse | Refusal:
    """A member says that it goes, and perhaps that the whole application should."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, StreamsGroup):
        return group_not_found(group, request.group_id)
    member = group.members.get(request.member_id)
    if member is None:
        return unknown_member(request.member_id, group.group_id)
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = request.member_id
    fence(group, member, out)
    return StreamsGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch, status=[]
    )


def group_not_found(group: object | None, group_id: str) -> Refusal:
    """No group has this name, or one of another kind has."""
    if group is None:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def fence(group: StreamsGroup, member: Member, out: Effects) -> None:
    """Take a member out of the group. What it had is free at once."""
    forget_member(out, group.group_id, member.member_id)
    end_session(group, member.member_id, out)
    write_epoch(
        out,
        group.group_id,
        group.epoch + 1,
        group.metadata_hash,
        group.validated_epoch,
        group.configs,
    )
