"""OffsetDelete, version 0: a group forgets how far it came in topics that it no longer reads.

It takes a right to delete the group, and one to read each topic.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.deleting import delete_offsets
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.server import audit
from penstock.server.rights import may_group
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from penstock.protocol.generated.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: OffsetDeleteRequest) -> Any:
    """Ask the group's shard about partitions that exist; the others are refused one by one."""
    if not may_group(broker, call, Operation.DELETE, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    names = (topic.name for topic in request.topics)
    unauthorized = refused_topics(broker, call, Operation.READ, names)
    known, unknown = [], []
    for topic in request.topics:
        if topic.name in unauthorized:
            refused = _refused(topic, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            unknown.append(refused)
            continue
        image = broker.image.topics.by_name.get(topic.name)
        partitions = {} if image is None else image.partitions
        there = [each for each in topic.partitions if each.partition_index in partitions]
        absent = [each for each in topic.partitions if each.partition_index not in partitions]
        if there:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        if absent:
            unknown.append(_refused(topic, absent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    answer = broker.coordinators.groups.call(
        request.group_id,
        lambda shard, at, out, ticket: delete_offsets(
            shard, at, out, ticket, request.group_id, known
        ),
        lambda error: OffsetDeleteResponse(error_code=error),
    )
    if asyncio.isfuture(answer):
        return _later(call, request.group_id, answer, unknown)
    return _with(call, request.group_id, answer, unknown)


def _refused(
    topic: OffsetDeleteRequestTopic,
    partitions: list[OffsetDeleteRequestPartition],
    error: ErrorCode,
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in partitions
        ],
    )


async def _later(
    call: Call, group_id: str, answer: Any, unknown: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    return _with(call, group_id, await answer, unknown)


def _with(
    call: Call,
    group_id: str,
    answer: OffsetDeleteResponse,
    unknown: list[OffsetDeleteResponseTopic],
) -> OffsetDeleteResponse:
    """An error about the group stands alone. A topic has one entry, or clients lose half of it."""
    if answer.error_code:
        return answer
    by_name = {topic.name: topic for topic in answer.topics}
    if by_name:
        audit.changed(call, "delete offsets", {"group": group_id, "topics": list(by_name)})
    for topic in unknown:
        found = by_name.get(topic.name)
        if found is None:
            answer.topics.append(topic)
        else:
            found.partitions += topic.partitions
    return answer
