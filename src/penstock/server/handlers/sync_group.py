"""SyncGroup, versions 0 to 5: bring the assignment as the leader, or fetch one's own.

Version 3 brought static members; from version 5 on a member says which protocol it believes in. It
takes a right to read the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.replies import sync_refused
from penstock.coordination.group.classic.syncing import Sync, sync
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.server.rights import may_group

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_PROTOCOL_FROM = 5


def handle(
    broker: Broker, call: Call, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """The answer comes when the leader's assignment is in the log."""
    unsaid = request.protocol_type is None or request.protocol_name is None
    if call.version >= _PROTOCOL_FROM and unsaid:
        return sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not may_group(broker, call, Operation.READ, request.group_id):
        return sync_refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return sync_refused(ErrorCode.INVALID_GROUP_ID)
    asked = Sync(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={it.member_id: bytes(it.assignment) for it in request.assignments},
    )
    answer: SyncGroupResponse | Awaitable[SyncGroupResponse] = broker.coordinators.groups.call(
        request.group_id,
        lambda shard, at, out, ticket: sync(shard, at, out, ticket, asked),
        sync_refused,
    )
    return answer
