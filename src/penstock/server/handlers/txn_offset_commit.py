"""TxnOffsetCommit, versions 0 to 5: offsets that count when a producer's transaction commits.

From version 3 on the member says who it is, so that one that was replaced meanwhile cannot commit;
from version 5 on the group need not have been added to the transaction before. Errors stand at
partitions, as in OffsetCommit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.effects import Producer
from penstock.coordination.group.offsets.committing import (
    Commit,
    Entry,
    answers_for,
    commit_offsets,
)
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from penstock.protocol.generated.txn_offset_commit import TxnOffsetCommitRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_KNOWS_LOADING_FROM = 2
"""Before, producers took COORDINATOR_LOAD_IN_PROGRESS for the end of everything."""


def handle(broker: Broker, call: Call, request: TxnOffsetCommitRequest) -> Any:
    """Commit to the group's shard on the transaction's behalf."""
    entries: list[Entry] = []
    by_name = broker.image.topics.by_name
    response = TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=answers_for(
                    by_name.get(topic.name),
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    topic.partitions,
                    TxnOffsetCommitResponsePartition,
                    entries,
                    with_id=False,
                ),
            )
            for topic in request.topics
        ]
    )
    if not entries:
        return response
    if not request.group_id:
        return _refused(call, request, ErrorCode.INVALID_GROUP_ID)
    commit = Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        call.version,
        entries,
        response,
        lambda error: _refused(call, request, error),
        producer=Producer(request.producer_id, request.producer_epoch),
    )
    return _append(broker, commit)


def _append(broker: Broker, commit: Commit) -> Any:
    return broker.coordinators.groups.call(
        commit.group_id,
        lambda shard, at, out, ticket: commit_offsets(shard, at, out, ticket, commit),
        commit.refuse,
    )


def _refused(
    call: Call, request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and call.version < _KNOWS_LOADING_FROM:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=asked.partition_index, error_code=error
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
