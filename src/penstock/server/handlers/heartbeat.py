"""Heartbeat, versions 0 to 4: a member is alive, and asks whether it has to join again.

Version 3 brought static members. It takes a right to read the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.heartbeats import heartbeat, is_fine
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.heartbeat import HeartbeatResponse
from penstock.server.rights import may_group

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.heartbeat import HeartbeatRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: HeartbeatRequest
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Answer at once, unless it is bad news that waits for its commit."""
    if not may_group(broker, call, Operation.READ, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)

    groups = broker.coordinators.groups
    settled = groups.settled_shard(request.group_id)
    if settled is not None and is_fine(
        settled,
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        broker.clock.monotonic(),
    ):
        return HeartbeatResponse()

    def step(shard: GroupShard, at: Moment, out: Effects, ticket: Ticket) -> None:
        error = heartbeat(
            shard,
            at,
            out,
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
        )
        out.reply(ticket, HeartbeatResponse(error_code=error))

    answer: HeartbeatResponse | Awaitable[HeartbeatResponse] = groups.call(
        request.group_id, step, _refused
    )
    return answer


def _refused(error: ErrorCode) -> HeartbeatResponse:
    if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # All members' sessions begin when the group is loaded: this one is as good as any.
        error = ErrorCode.NONE
    return HeartbeatResponse(error_code=error)
