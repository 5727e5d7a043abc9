"""OffsetDelete, version 0: a group forgets how far it came in topics that it no longer reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.deleting import delete_offsets
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from penstock.protocol.generated.offset_delete import OffsetDeleteRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: OffsetDeleteRequest,
) -> Any:
    """Ask the group's shard about partitions that exist; the others are refused one by one."""
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    known, unknown = [], []
    for topic in request.topics:
        image = broker.image.topics.by_name.get(topic.name)
        partitions = {} if image is None else image.partitions
        there = [each for each in topic.partitions if each.partition_index in partitions]
        absent = [each for each in topic.partitions if each.partition_index not in partitions]
        if there:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        if absent:
            unknown.append(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=each.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                        for each in absent
                    ],
                )
            )
    answer = broker.coordinators.groups.call(
        request.group_id,
        lambda shard, at, out, ticket: delete_offsets(
            shard, at, out, ticket, request.group_id, known
        ),
        lambda error: OffsetDeleteResponse(error_code=error),
    )
    return _later(answer, unknown) if asyncio.isfuture(answer) else _with(answer, unknown)


async def _later(answer: Any, unknown: list[OffsetDeleteResponseTopic]) -> OffsetDeleteResponse:
    return _with(await answer, unknown)


def _with(
    answer: OffsetDeleteResponse, unknown: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    """An error about the group stands alone. A topic has one entry, or clients lose half of it."""
    if answer.error_code:
        return answer
    by_name = {topic.name: topic for topic in answer.topics}
    for topic in unknown:
        found = by_name.get(topic.name)
        if found is None:
            answer.topics.append(topic)
        else:
            found.partitions += topic.partitions
    return answer
