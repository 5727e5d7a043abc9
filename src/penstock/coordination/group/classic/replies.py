"""Answers to those who wait in a group, in the words of their request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.join_group import JoinGroupResponse, JoinGroupResponseMember
from penstock.protocol.generated.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Ticket
    from penstock.coordination.group.classic.group import ClassicGroup


def join_refused(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """No place in the group, at least not now."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)


def joined(group: ClassicGroup, member_id: str, skip_assignment: bool = False) -> JoinGroupResponse:
    """The generation as a member learns of it: its leader sees all members, the others none."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_everyone(group) if member_id == group.leader_id else [],
    )


def _everyone(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    assert group.protocol_name is not None
    return [
        JoinGroupResponseMember(
            member_id=it.member_id,
            group_instance_id=it.instance_id,
            metadata=it.metadata(group.protocol_name),
        )
        for it in group.members.values()
    ]


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """No assignment."""
    return SyncGroupResponse(error_code=error)


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """A member's share of the work."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


def release(group: ClassicGroup, member_id: str, error: ErrorCode, out: Effects) -> None:
    """The member will not be here any more: whatever it waits for ends with this error."""
    join = group.joins.pop(member_id, None)
    if join is not None:
        # A member that is told that it is unknown has no use for its id.
        known = "" if error == ErrorCode.UNKNOWN_MEMBER_ID else member_id
        out.reply(join, join_refused(error, known))
    sync = group.syncs.pop(member_id, None)
    if sync is not None:
        out.reply(sync, sync_refused(error))


def wait_for_join(group: ClassicGroup, member_id: str, ticket: Ticket, out: Effects) -> None:
    """Park the request until the next generation. A member waits with one request at a time."""
    before = group.joins.get(member_id)
    if before is not None:
        out.reply(before, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
    group.joins[member_id] = ticket


def wait_for_sync(group: ClassicGroup, member_id: str, ticket: Ticket, out: Effects) -> None:
    """Park the request until the leader has assigned."""
    before = group.syncs.get(member_id)
    if before is not None:
        out.reply(before, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    group.syncs[member_id] = ticket
