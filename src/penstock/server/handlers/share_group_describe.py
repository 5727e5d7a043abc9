"""ShareGroupDescribe, version 1: groups that share partitions, and their members.

Groups that hash to another node's shards are answered with NOT_COORDINATOR, each for itself.
It takes a right to describe each group, and one to describe all that its members read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.share.describing import describe
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.protocol.generated.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeResponse,
)
from penstock.server.handlers.describe_groups import GROUP_OPERATIONS
from penstock.server.handlers.share_group_heartbeat import is_enabled
from penstock.server.rights import may_group, rights_bits
from penstock.server.topic_rights import shows_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.protocol.generated.share_group_describe import ShareGroupDescribeRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: ShareGroupDescribeRequest) -> Any:
    """Each group by itself, in the order of the request."""
    group_ids = dict.fromkeys(request.group_ids)
    if not is_enabled(broker):
        failed = [_failed(it, ErrorCode.UNSUPPORTED_VERSION) for it in group_ids]
        return _respond(broker, call, failed, request)
    answers = [_describe(broker, call, group_id) for group_id in group_ids]
    if any(asyncio.isfuture(it) for it in answers):
        return _gather(broker, call, answers, request)
    return _respond(broker, call, answers, request)


def _describe(broker: Broker, call: Call, group_id: str) -> Any:
    if not may_group(broker, call, Operation.DESCRIBE, group_id):
        return _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return _failed(group_id, ErrorCode.INVALID_GROUP_ID)
    return broker.coordinators.groups.call(
        group_id,
        lambda shard, _at, out, ticket: out.reply(ticket, describe(shard, group_id)),
        lambda error: _failed(group_id, error),
    )


async def _gather(
    broker: Broker, call: Call, answers: Sequence[Any], request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    done = [await it if asyncio.isfuture(it) else it for it in answers]
    return _respond(broker, call, done, request)


def _respond(
    broker: Broker,
    call: Call,
    answers: Sequence[ShareGroupDescribeResponse],
    request: ShareGroupDescribeRequest,
) -> ShareGroupDescribeResponse:
    groups = [group for answer in answers for group in answer.groups]
    if broker.authorizer is not None:
        groups = [_shown(broker, call, group) for group in groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = rights_bits(
                    broker, call, ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
                )
    return ShareGroupDescribeResponse(groups=groups)


def _shown(broker: Broker, call: Call, group: DescribedGroup) -> DescribedGroup:
    """The group, or nothing of it if its members read what the client must not know of."""
    topics = {
        each.topic_name for member in group.members for each in member.assignment.topic_partitions
    }
    if all(shows_topic(broker, call, topic) for topic in topics):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group reads topics that you may not describe.",
    )


def _failed(group_id: str, error: ErrorCode) -> ShareGroupDescribeResponse:
    group = DescribedGroup(group_id=group_id, error_code=error)
    return ShareGroupDescribeResponse(groups=[group])
