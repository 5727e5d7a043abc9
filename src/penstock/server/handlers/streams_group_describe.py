"""StreamsGroupDescribe, version 0: groups of Kafka Streams instances, their topology and members.

Groups that hash to another node's shards are answered with NOT_COORDINATOR, each for itself. It
takes a right to describe each group, and one to describe all topics of its topology.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.streams.describing import describe
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.protocol.generated.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from penstock.server.handlers.describe_groups import GROUP_OPERATIONS
from penstock.server.handlers.streams_group_heartbeat import is_enabled
from penstock.server.rights import may_group, rights_bits
from penstock.server.topic_rights import shows_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.protocol.generated.streams_group_describe import StreamsGroupDescribeRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: StreamsGroupDescribeRequest) -> Any:
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
    broker: Broker, call: Call, answers: Sequence[Any], request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    done = [await it if asyncio.isfuture(it) else it for it in answers]
    return _respond(broker, call, done, request)


def _respond(
    broker: Broker,
    call: Call,
    answers: Sequence[StreamsGroupDescribeResponse],
    request: StreamsGroupDescribeRequest,
) -> StreamsGroupDescribeResponse:
    groups = [group for answer in answers for group in answer.groups]
    if broker.authorizer is not None:
        groups = [_shown(broker, call, group) for group in groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = rights_bits(
                    broker, call, ResourceType.GROUP, group.group_id, GROUP_OPERATIONS
                )
    return StreamsGroupDescribeResponse(groups=groups)


def _shown(broker: Broker, call: Call, group: DescribedGroup) -> DescribedGroup:
    """The group, or nothing of it if it has to do with what the client must not know of."""
    if all(shows_topic(broker, call, topic) for topic in dict.fromkeys(_topics(group))):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The application uses topics that you may not describe.",
    )


def _topics(group: DescribedGroup) -> Iterator[str]:
    for it in (group.topology and group.topology.subtopologies) or ():
        yield from it.source_topics
        yield from it.repartition_sink_topics
        for topic in (*it.repartition_source_topics, *it.state_changelog_topics):
            yield topic.name


def _failed(group_id: str, error: ErrorCode) -> StreamsGroupDescribeResponse:
    group = DescribedGroup(group_id=group_id, error_code=error)
    return StreamsGroupDescribeResponse(groups=[group])
