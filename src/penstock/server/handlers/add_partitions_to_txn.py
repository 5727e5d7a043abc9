"""AddPartitionsToTxn, versions 0 to 5: partitions join a transaction.

Up to version 3 it comes from clients of transaction version 1, for one transaction. From version 4
on it comes from brokers, for many, and may ask to verify only: leaders do that with the first batch
that a client sends them. Clients need a right to write under the transactional id, and to each
topic; brokers have to be of the cluster.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.coordination.txn.adding import Participation, Verdict
from penstock.coordination.txn.transaction import EPOCH_PER_TXN_FROM
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from penstock.replica.partition import INTERNAL_TOPICS
from penstock.server.rights import may_cluster, may_transact
from penstock.server.topic_rights import NO_TOPICS, refused_topics
from penstock.server.txn_fencing import known_error
from penstock.server.txn_verification import ask_here

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.protocol.generated.add_partitions_to_txn import AddPartitionsToTxnRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

BROKERS_FROM = 4
FENCED_FROM = 2
"""The first version whose clients know PRODUCER_FENCED."""


_Answer = Verdict | dict[tuple[str, int], ErrorCode]
"""The coordinator's word, or an error for each partition because it was not asked."""


def handle(
    broker: Broker, call: Call, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Answer partition by partition, transaction by transaction."""
    version = call.version
    if version < BROKERS_FROM:
        wanted = [_of_client(request)]
    elif not may_cluster(broker, call, Operation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    else:
        call.account = None  # quotas are for clients
        by_id = {each.transactional_id: each for each in request.transactions}
        wanted = list(by_id.values())
    verdicts = [_verdict(broker, call, each) for each in wanted]
    if any(isinstance(each, asyncio.Future) for each in verdicts):
        return _wait(version, wanted, verdicts)
    return _response(version, wanted, verdicts)  # type: ignore[arg-type]


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _verdict(
    broker: Broker, call: Call, wanted: AddPartitionsToTxnTransaction
) -> _Answer | asyncio.Future[Verdict]:
    places = [(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    for_client = call.version < BROKERS_FROM
    unauthorized = NO_TOPICS
    if for_client:
        if not may_transact(broker, call, Operation.WRITE, wanted.transactional_id):
            return Verdict(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        # Offsets have a request of their own.
        unauthorized = INTERNAL_TOPICS | refused_topics(
            broker,
            call,
            Operation.WRITE,
            (topic.name for topic in wanted.topics if topic.name not in INTERNAL_TOPICS),
        )
    refused = {each: error for each in places if (error := _refusal(broker, *each, unauthorized))}
    if refused:
        # All or none: the others are not added either.
        return dict.fromkeys(places, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused
    if not wanted.transactional_id:
        return Verdict(ErrorCode.INVALID_REQUEST)
    what = Participation(
        wanted.transactional_id,
        wanted.producer_id,
        wanted.producer_epoch,
        places,
        0 if for_client else EPOCH_PER_TXN_FROM,
    )
    return ask_here(broker, what, wanted.verify_only)


def _refusal(broker: Broker, topic: str, index: int, unauthorized: frozenset[str]) -> ErrorCode:
    if topic in unauthorized:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = broker.image.topics.by_name.get(topic)
    if found is None or index not in found.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


async def _wait(
    version: int,
    wanted: list[AddPartitionsToTxnTransaction],
    verdicts: list[_Answer | asyncio.Future[Verdict]],
) -> AddPartitionsToTxnResponse:
    final = [await each if isinstance(each, asyncio.Future) else each for each in verdicts]
    return _response(version, wanted, final)


def _response(
    version: int, wanted: list[AddPartitionsToTxnTransaction], verdicts: list[_Answer]
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(
            transactional_id=each.transactional_id,
            topic_results=_topics(each.topics, _error_of(verdict, version)),
        )
        for each, verdict in zip(wanted, verdicts, strict=True)
    ]
    if version < BROKERS_FROM:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _error_of(answer: _Answer, version: int) -> Callable[[tuple[str, int]], int]:
    if isinstance(answer, dict):
        return answer.__getitem__
    return lambda place: known_error(answer.of(place), version >= FENCED_FROM)


def _topics(
    topics: list[AddPartitionsToTxnTopic], error_of: Callable[[tuple[str, int]], int]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=error_of((topic.name, index))
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
