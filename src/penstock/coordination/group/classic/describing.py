"""DescribeGroups: a classic group as an operator sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.states import State
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_groups import DescribedGroup, DescribedGroupMember

if TYPE_CHECKING:
    from penstock.coordination.group.classic.member import Member
    from penstock.coordination.group.shard import GroupShard


def describe(shard: GroupShard, group_id: str) -> DescribedGroup:
    """The group and its members; what they said and got is complete while it is stable."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        what = "not found" if group is None else "is not a classic group"
        return not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
    name = group.protocol_name if group.state is State.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=name or "",
        members=[_member(it, name) for it in group.members.values()],
    )


def _member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )


def not_described(group_id: str, error: ErrorCode, message: str | None = None) -> DescribedGroup:
    """No description; a group that does not exist is dead."""
    return DescribedGroup(
        group_id=group_id,
        error_code=error,
        error_message=message,
        group_state=State.DEAD.value if error == ErrorCode.GROUP_ID_NOT_FOUND else "",
    )
