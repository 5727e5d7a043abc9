"""OffsetCommit, versions 2 to 10: a consumer, or a tool, says how far a group has come.

Topics have names up to version 9 and ids from version 10 on. Partitions that do not exist are
refused one by one; an error about the group or its member stands at every other partition of the
request. Versions 2 to 4 may say how long the offsets are kept. It takes a right to read the group,
and one to read each topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.group.offsets.committing import (
    Commit,
    Entry,
    answers_for,
    commit_offsets,
)
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.server.rights import may_group
from penstock.server.topic_rights import NO_TOPICS, refused_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.protocol.generated.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestTopic,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_BY_ID_FROM = 10


def handle(broker: Broker, call: Call, request: OffsetCommitRequest) -> Any:
    """Commit to the group's shard; the answer comes when the offsets are durable."""
    if not may_group(broker, call, Operation.READ, request.group_id):
        return _refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    unauthorized = NO_TOPICS
    if broker.authorizer is not None:
        names = _names(broker, call, request)
        unauthorized = refused_topics(broker, call, Operation.READ, names)
    entries: list[Entry] = []
    response = OffsetCommitResponse(
        topics=[
            _topic(broker, call, topic, unauthorized, entries)
            for topic in request.topics
            if topic.partitions
        ]
    )
    if not entries:
        return response
    commit = Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        call.version,
        entries,
        response,
        request.retention_time_ms,
    )
    return broker.coordinators.groups.call(
        request.group_id,
        lambda shard, at, out, ticket: commit_offsets(shard, at, out, ticket, commit),
        commit.refuse,
    )


def _topic(
    broker: Broker,
    call: Call,
    topic: OffsetCommitRequestTopic,
    unauthorized: frozenset[str],
    entries: list[Entry],
) -> OffsetCommitResponseTopic:
    if call.version >= _BY_ID_FROM:
        image = broker.image.topics.by_id.get(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        image = broker.image.topics.by_name.get(topic.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if unauthorized and (topic.name if image is None else image.name) in unauthorized:
        image, unknown = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=answers_for(
            image, unknown, topic.partitions, OffsetCommitResponsePartition, entries
        ),
    )


def _names(broker: Broker, call: Call, request: OffsetCommitRequest) -> Iterator[str]:
    """Of the topics, as far as the ids of the request have any."""
    by_id = broker.image.topics.by_id
    for topic in request.topics:
        if call.version < _BY_ID_FROM:
            yield topic.name
        elif topic.topic_id in by_id:
            yield by_id[topic.topic_id].name


def _refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=error
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
