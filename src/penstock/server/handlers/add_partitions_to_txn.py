"""AddPartitionsToTxn, versions 0 to 5: partitions join a transaction.

Up to version 3 it comes from clients of transaction version 1, for one transaction. From version 4
on it comes from brokers, for many, and may ask to verify only: leaders do that with the first batch
that a client sends them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.coordination.txn.adding import Participation, Verdict
from penstock.coordination.txn.transaction import EPOCH_PER_TXN_FROM
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from penstock.server.txn_fencing import known_error
from penstock.server.txn_verification import ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.protocol.generated.add_partitions_to_txn import AddPartitionsToTxnRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

BROKERS_FROM = 4
FENCED_FROM = 2
"""The first version whose clients know PRODUCER_FENCED."""


def handle(
    broker: Broker, call: Call, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    """Answer partition by partition, transaction by transaction."""
    version = call.version
    if version < BROKERS_FROM:
        wanted = [_of_client(request)]
    else:
        by_id = {each.transactional_id: each for each in request.transactions}
        wanted = list(by_id.values())
    verdicts = [_verdict(broker, each, version) for each in wanted]
    if all(isinstance(each, Verdict) for each in verdicts):
        return _response(version, wanted, verdicts)  # type: ignore[arg-type]
    return _wait(version, wanted, verdicts)


def _of_client(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _verdict(
    broker: Broker, wanted: AddPartitionsToTxnTransaction, version: int
) -> Verdict | asyncio.Future[Verdict]:
    places = [(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    unknown = frozenset(each for each in places if not _exists(broker, *each))
    if unknown:
        return Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    if not wanted.transactional_id:
        return Verdict(ErrorCode.INVALID_REQUEST)
    what = Participation(
        wanted.transactional_id,
        wanted.producer_id,
        wanted.producer_epoch,
        places,
        EPOCH_PER_TXN_FROM if version >= BROKERS_FROM else 0,
    )
    return ask(broker, what, wanted.verify_only)


def _exists(broker: Broker, topic: str, index: int) -> bool:
    found = broker.image.topics.by_name.get(topic)
    return found is not None and index in found.partitions


async def _wait(
    version: int,
    wanted: list[AddPartitionsToTxnTransaction],
    verdicts: list[Verdict | asyncio.Future[Verdict]],
) -> AddPartitionsToTxnResponse:
    final = [each if isinstance(each, Verdict) else await each for each in verdicts]
    return _response(version, wanted, final)


def _response(
    version: int, wanted: list[AddPartitionsToTxnTransaction], verdicts: list[Verdict]
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


def _error_of(verdict: Verdict, version: int) -> Callable[[tuple[str, int]], int]:
    if verdict.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        # All or none: those that exist have not been added either.
        return lambda place: (
            verdict.error if place in verdict.missing else ErrorCode.OPERATION_NOT_ATTEMPTED
        )
    return lambda place: known_error(verdict.of(place), version >= FENCED_FROM)


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
