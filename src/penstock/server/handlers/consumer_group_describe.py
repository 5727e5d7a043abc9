"""ConsumerGroupDescribe, versions 0 and 1: groups whose coordinator assigns, and their members.

Groups that hash to another node's shards are answered with NOT_COORDINATOR, each for itself.
Version 1 adds which protocol a member speaks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.consumer.describing import describe
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from penstock.server.handlers.consumer_group_heartbeat import is_enabled
from penstock.server.handlers.describe_groups import GROUP_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: ConsumerGroupDescribeRequest,
) -> Any:
    """Each group by itself, in the order of the request."""
    if not is_enabled(broker):
        failed = [_failed(it, ErrorCode.UNSUPPORTED_VERSION) for it in request.group_ids]
        return _respond(failed, request)
    answers = [_describe(broker, group_id) for group_id in request.group_ids]
    if any(asyncio.isfuture(it) for it in answers):
        return _gather(answers, request)
    return _respond(answers, request)


def _describe(broker: Broker, group_id: str) -> Any:
    if not group_id:
        return _failed(group_id, ErrorCode.INVALID_GROUP_ID)
    return broker.coordinators.groups.call(
        group_id,
        lambda shard, _at, out, ticket: out.reply(ticket, describe(shard, group_id)),
        lambda error: _failed(group_id, error),
    )


async def _gather(
    answers: Sequence[Any], request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    return _respond([await it if asyncio.isfuture(it) else it for it in answers], request)


def _respond(
    answers: Sequence[ConsumerGroupDescribeResponse], request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    groups = [group for answer in answers for group in answer.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _failed(group_id: str, error: ErrorCode) -> ConsumerGroupDescribeResponse:
    group = DescribedGroup(group_id=group_id, error_code=error)
    return ConsumerGroupDescribeResponse(groups=[group])
