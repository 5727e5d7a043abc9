"""TxnOffsetCommit, versions 0 to 5: offsets that count when a producer's transaction commits.

From version 3 on the member says who it is, so that one that was replaced meanwhile cannot commit;
from version 5 on the group need not have been added to the transaction before. Errors stand at
partitions, as in OffsetCommit. It takes a right to write under the transactional id, and rights to
read the group and each topic.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.coordination.effects import Producer
from penstock.coordination.group.offsets.committing import (
    Commit,
    Entry,
    answers_for,
    commit_offsets,
)
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from penstock.server.internal_topics import GROUPS_TOPIC
from penstock.server.rights import may_group, may_transact
from penstock.server.topic_rights import refused_topics
from penstock.server.txn_verification import Support, verify

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.txn_offset_commit import TxnOffsetCommitRequest
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.txn_verification import Errors

_KNOWS_LOADING_FROM = 2
"""Before, producers took COORDINATOR_LOAD_IN_PROGRESS for the end of everything."""

_AS_GROUPS_KNOW = {
    # Producers try again with the same coordinator: it is not this one that was not reached.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What came of asking a transaction's coordinator, as clients of a group coordinator know it."""

_QUESTIONS_MAX = 2
"""How often a transaction's coordinator is asked about one request."""


def handle(broker: Broker, call: Call, request: TxnOffsetCommitRequest) -> Any:
    """Commit to the group's shard on the transaction's behalf."""
    if not may_transact(broker, call, Operation.WRITE, request.transactional_id):
        return _refuse_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may_group(broker, call, Operation.READ, request.group_id):
        return _refuse_all(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    entries: list[Entry] = []
    response = _answers(broker, call, request, entries)
    if not entries:
        return response
    commit = Commit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        call.version,
        entries,
        response,
        producer=Producer(request.producer_id, request.producer_epoch),
    )
    if not request.group_id:
        return commit.refuse(ErrorCode.INVALID_GROUP_ID)
    partition = _partition(broker, commit)
    if partition is None or _is_open(partition, commit):
        return _append(broker, commit)  # verified before; without a partition it is refused
    errors = _verify(broker, call, request)
    if isinstance(errors, dict):
        return _append_if_allowed(broker, commit, errors)
    return _append_later(broker, call, request, commit, partition, errors)


def _answers(
    broker: Broker, call: Call, request: TxnOffsetCommitRequest, entries: list[Entry]
) -> TxnOffsetCommitResponse:
    """The answer if the group agrees; what there is to commit is added to `entries`."""
    names = (topic.name for topic in request.topics)
    unauthorized = refused_topics(broker, call, Operation.READ, names)
    by_name = broker.image.topics.by_name
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        if not topic.partitions:
            continue
        image, unknown = by_name.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name in unauthorized:
            image, unknown = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answers = answers_for(
            image,
            unknown,
            topic.partitions,
            TxnOffsetCommitResponsePartition,
            entries,
            with_id=False,
        )
        response.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
    return response


def _refuse_all(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=error
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _append(broker: Broker, commit: Commit) -> Any:
    return broker.coordinators.groups.call(
        commit.group_id,
        lambda shard, at, out, ticket: commit_offsets(shard, at, out, ticket, commit),
        lambda error: _refuse(commit, error),
    )


def _refuse(commit: Commit, error: ErrorCode) -> Any:
    if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and commit.version < _KNOWS_LOADING_FROM:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return commit.refuse(error)


# -- whether the group takes part in the transaction ----------------------------------------------


def _partition(broker: Broker, commit: Commit) -> Partition | None:
    """Of the group's shard, if this node leads it."""
    index = broker.coordinators.groups.index_of(commit.group_id)
    partition = broker.hosted.get((GROUPS_TOPIC, index))
    return partition if partition is not None and partition.leading else None


def _is_open(partition: Partition, commit: Commit) -> bool:
    """Whether the shard's partition has records of this transaction: it was verified then."""
    assert commit.producer is not None
    known = partition.log.producers.by_id.get(commit.producer.id)
    return (
        known is not None and known.txn_first_offset >= 0 and known.epoch == commit.producer.epoch
    )


def _verify(
    broker: Broker, call: Call, request: TxnOffsetCommitRequest
) -> Errors | Awaitable[Errors]:
    place = (GROUPS_TOPIC, broker.coordinators.groups.index_of(request.group_id))
    return verify(
        broker,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [place],
        Support.of_offset_commit(call.version),
    )


def _append_if_allowed(broker: Broker, commit: Commit, errors: Errors) -> Any:
    for error in errors.values():
        return _refuse(commit, _AS_GROUPS_KNOW.get(error, error))
    return _append(broker, commit)


async def _append_later(
    broker: Broker,
    call: Call,
    request: TxnOffsetCommitRequest,
    commit: Commit,
    partition: Partition,
    errors: Errors | Awaitable[Errors],
) -> Any:
    """Append when the coordinator has answered, and if its answer still counts then.

    A marker that comes between ends the transaction that the answer was about. Offsets that were
    appended after it would wait for another one, which nobody may ever send. The coordinator is
    asked once more: the marker may have been that of the transaction before.
    """
    assert commit.producer is not None
    producer, guards = commit.producer, partition.guards
    for question in range(_QUESTIONS_MAX):
        if question:
            errors = _verify(broker, call, request)
        guard = guards.of(producer.id, producer.epoch)
        found = errors if isinstance(errors, dict) else await errors
        if found or _is_open(partition, commit) or guards.is_good(producer.id, guard):
            answer = _append_if_allowed(broker, commit, found)
            return await answer if asyncio.isfuture(answer) else answer
    return commit.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
