"""OffsetFetch, versions 1 to 10: how far groups have come.

One group up to version 7, many from version 8 on; no topics means all that the group has. From
version 9 on a member may say who it is, and is refused if it is not; from version 10 on topics
have ids. An error about a group stands beside it, and in version 1, which has no place for that,
at each partition. It takes a right to describe the group, and one to describe each topic: others
are refused, or left out where the client named none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.offsets.fetching import fetch_offsets, nothing
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.server.rights import may_group
from penstock.server.topic_rights import refused_topics, shows_topic

if TYPE_CHECKING:
    from penstock.protocol.generated.offset_fetch import OffsetFetchRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_BATCHED_FROM = 8
_BY_ID_FROM = 10
_GROUP_ERROR_FROM = 2


def handle(broker: Broker, call: Call, request: OffsetFetchRequest) -> Any:
    """Ask the shard of each group."""
    if call.version < _BATCHED_FROM:
        return _one(broker, call, request)
    # What is asked of one group twice could be very much, and as often as the request has room.
    groups = {group.group_id: group for group in request.groups}.values()
    answers = [_group(broker, call, group, request.require_stable) for group in groups]
    if any(asyncio.isfuture(answer) for answer in answers):
        return _all(answers)
    return OffsetFetchResponse(groups=answers)


async def _all(answers: list[Any]) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[await each if asyncio.isfuture(each) else each for each in answers]
    )


def _group(broker: Broker, call: Call, asked: OffsetFetchRequestGroup, require_stable: bool) -> Any:
    if not may_group(broker, call, Operation.DESCRIBE, asked.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
    refused: list[OffsetFetchResponseTopics] = []
    wants_all = asked.topics is None
    if call.version >= _BY_ID_FROM and asked.topics is not None:
        asked.topics = _named(broker, asked.topics, refused)
    if broker.authorizer is not None and asked.topics is not None:
        asked.topics = _authorized(broker, call, asked.topics, refused)
    answer = broker.coordinators.groups.call(
        asked.group_id,
        lambda shard, at, out, ticket: fetch_offsets(shard, at, out, ticket, asked, require_stable),
        lambda error: OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error),
    )
    if call.version < _BY_ID_FROM and broker.authorizer is None:
        return answer
    if asyncio.isfuture(answer):
        return asyncio.ensure_future(_later(broker, call, answer, refused, wants_all))
    return _finished(broker, call, answer, refused, wants_all)


def _named(
    broker: Broker,
    topics: list[OffsetFetchRequestTopics],
    refused: list[OffsetFetchResponseTopics],
) -> list[OffsetFetchRequestTopics]:
    """The topics with names; those whose ids nobody knows are answered in `refused`."""
    named = []
    for topic in topics:
        image = broker.image.topics.by_id.get(topic.topic_id)
        if image is not None:
            topic.name = image.name
            named.append(topic)
            continue
        refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
    return named


def _authorized(
    broker: Broker,
    call: Call,
    topics: list[OffsetFetchRequestTopics],
    refused: list[OffsetFetchResponseTopics],
) -> list[OffsetFetchRequestTopics]:
    """The topics that the client may describe; the others are answered in `refused`."""
    names = (topic.name for topic in topics)
    unauthorized = refused_topics(broker, call, Operation.DESCRIBE, names)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused += [_refused(topic, error) for topic in topics if topic.name in unauthorized]
    return [topic for topic in topics if topic.name not in unauthorized]


def _refused(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[nothing(partition, error) for partition in topic.partition_indexes],
    )


async def _later(
    broker: Broker,
    call: Call,
    answer: Any,
    refused: list[OffsetFetchResponseTopics],
    wants_all: bool,
) -> OffsetFetchResponseGroup:
    return _finished(broker, call, await answer, refused, wants_all)


def _finished(
    broker: Broker,
    call: Call,
    answer: OffsetFetchResponseGroup,
    refused: list[OffsetFetchResponseTopics],
    wants_all: bool,
) -> OffsetFetchResponseGroup:
    if answer.error_code:
        return answer
    topics = answer.topics
    if wants_all:
        topics = [topic for topic in topics if shows_topic(broker, call, topic.name)]
    if call.version >= _BY_ID_FROM:
        topics = _with_ids(broker, topics)
    answer.topics = topics + refused
    return answer


def _with_ids(
    broker: Broker, topics: list[OffsetFetchResponseTopics]
) -> list[OffsetFetchResponseTopics]:
    """Topics that are gone have no id, and are left out."""
    by_name = broker.image.topics.by_name
    there = []
    for topic in topics:
        image = by_name.get(topic.name)
        if image is not None:
            topic.topic_id = image.id
            there.append(topic)
    return there


# -- one group ------------------------------------------------------------------------------------


def _one(broker: Broker, call: Call, request: OffsetFetchRequest) -> Any:
    asked = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if request.topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ],
    )
    answer = _group(broker, call, asked, request.require_stable)
    if asyncio.isfuture(answer):
        return _one_later(call, asked, answer)
    return _as_one(call, asked, answer)


async def _one_later(call: Call, asked: OffsetFetchRequestGroup, answer: Any) -> Any:
    return _as_one(call, asked, await answer)


def _as_one(
    call: Call, asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup
) -> OffsetFetchResponse:
    topics = group.topics
    if group.error_code and call.version < _GROUP_ERROR_FROM:
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    nothing(partition, ErrorCode(group.error_code))
                    for partition in topic.partition_indexes
                ],
            )
            for topic in asked.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=it.partition_index,
                        committed_offset=it.committed_offset,
                        committed_leader_epoch=it.committed_leader_epoch,
                        metadata=it.metadata,
                        error_code=it.error_code,
                    )
                    for it in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
