"""DescribeGroups, versions 0 to 6: classic groups, their members, and who does what.

Version 3 can tell what the client may do to each group, version 4 brought static members. Up to
version 5 a group that does not exist is described as dead; version 6 says that it was not found.
It takes a right to describe each group, whether it exists or not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.classic.describing import describe, not_described
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation, bits
from penstock.model.resources import ResourceType
from penstock.protocol.generated.describe_groups import DescribedGroup, DescribeGroupsResponse
from penstock.server.rights import may_group, rights_bits

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.describe_groups import DescribeGroupsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_NOT_FOUND_FROM = 6

GROUP_OPERATIONS = bits(
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


def handle(
    broker: Broker, call: Call, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    """Ask each group's shard; wait for those that have something to commit first."""
    found = [_describe(broker, call, group_id) for group_id in dict.fromkeys(request.groups)]
    if any(asyncio.isfuture(it) for it in found):
        return _wait(broker, call, request, found)
    return _response(broker, call, request, found)


def _describe(broker: Broker, call: Call, group_id: str) -> Any:
    def step(shard: GroupShard, at: Moment, out: Effects, ticket: Ticket) -> None:  # noqa: ARG001
        # Inside the step it is a message of its own, so that it can wait like any other.
        out.reply(ticket, DescribeGroupsResponse(groups=[describe(shard, group_id)]))

    def refuse(error: ErrorCode) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[not_described(group_id, error)])

    if not may_group(broker, call, Operation.DESCRIBE, group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return broker.coordinators.groups.call(group_id, step, refuse)


async def _wait(
    broker: Broker, call: Call, request: DescribeGroupsRequest, found: list[Any]
) -> DescribeGroupsResponse:
    done = [await it if asyncio.isfuture(it) else it for it in found]
    return _response(broker, call, request, done)


def _response(
    broker: Broker,
    call: Call,
    request: DescribeGroupsRequest,
    found: list[DescribeGroupsResponse],
) -> DescribeGroupsResponse:
    groups = [group for response in found for group in response.groups]
    for group in groups:
        _adapt(call, group)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = rights_bits(
                broker, call, ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
            )
    return DescribeGroupsResponse(groups=groups)


def _adapt(call: Call, group: DescribedGroup) -> None:
    if call.version < _NOT_FOUND_FROM:
        group.error_message = None
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            group.error_code = ErrorCode.NONE
