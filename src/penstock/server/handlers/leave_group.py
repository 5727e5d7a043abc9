"""LeaveGroup, versions 0 to 5: members go at once, instead of when their sessions end.

From version 3 on a request names many, and static ones can be sent away by their instance id;
before, it names one, and its error stands for the whole. Version 5 brought a reason, for our log.
It takes a right to read the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.leaving import Leaver, leave
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.leave_group import LeaveGroupResponse, MemberResponse
from penstock.server.rights import may_group

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.leave_group import LeaveGroupRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_MANY_FROM = 3


def handle(
    broker: Broker, call: Call, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Answer when the group without them is in the log, if they were the last."""
    if not may_group(broker, call, Operation.READ, request.group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    leavers: list[Leaver]
    if call.version >= _MANY_FROM:
        leavers = [(it.member_id, it.group_instance_id) for it in request.members]
    else:
        leavers = [(request.member_id, None)]

    def step(shard: GroupShard, at: Moment, out: Effects, ticket: Ticket) -> None:
        errors = leave(shard, at, out, request.group_id, leavers)
        out.reply(ticket, _response(call.version, leavers, errors))

    answer: LeaveGroupResponse | Awaitable[LeaveGroupResponse] = broker.coordinators.groups.call(
        request.group_id, step, _refused
    )
    return answer


def _response(version: int, leavers: list[Leaver], errors: list[ErrorCode]) -> LeaveGroupResponse:
    if version < _MANY_FROM:
        return _refused(errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error)
            for (member_id, instance_id), error in zip(leavers, errors, strict=True)
        ]
    )


def _refused(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)
