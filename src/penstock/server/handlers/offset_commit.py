"""OffsetCommit, versions 2 to 10: a consumer, or a tool, says how far a group has come.

Topics have names up to version 9 and ids from version 10 on. Partitions that do not exist are
refused one by one; an error about the group or its member stands at every other partition of the
request. Versions 2 to 4 may say how long the offsets are kept.
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
from penstock.protocol.generated.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from penstock.protocol.generated.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestTopic,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_BY_ID_FROM = 10


def handle(broker: Broker, call: Call, request: OffsetCommitRequest) -> Any:
    """Commit to the group's shard; the answer comes when the offsets are durable."""
    entries: list[Entry] = []
    response = OffsetCommitResponse(
        topics=[
            _topic(broker, call, topic, entries) for topic in request.topics if topic.partitions
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
    broker: Broker, call: Call, topic: OffsetCommitRequestTopic, entries: list[Entry]
) -> OffsetCommitResponseTopic:
    if call.version >= _BY_ID_FROM:
        image = broker.image.topics.by_id.get(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        image = broker.image.topics.by_name.get(topic.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=answers_for(
            image, unknown, topic.partitions, OffsetCommitResponsePartition, entries
        ),
    )
