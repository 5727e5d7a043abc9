"""WriteTxnMarkers, versions 1 and 2: tell partitions that this node leads how transactions ended.

It comes from transaction coordinators, and from administrators who end a transaction that nobody
coordinates any more. Version 2 says in which transaction version a transaction was conducted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from penstock.server.txn_markers import Marker, append_here

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.write_txn_markers import (
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""What a group coordinator says, and a transaction coordinator knows as NOT_LEADER_OR_FOLLOWER."""

_Pending = list[tuple[WritableTxnMarkerPartitionResult, "asyncio.Future[ErrorCode]"]]


def handle(
    broker: Broker, call: Call, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Answer partition by partition, when the markers are as safe as the in-sync replicas."""
    call.account = None  # quotas are for clients
    response = WriteTxnMarkersResponse()
    pending: _Pending = []
    nonsense = any(each.producer_id < 0 or each.producer_epoch < 0 for each in request.markers)
    for each in request.markers:
        marker = Marker(
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.transaction_result,
            each.transaction_version,
        )
        if nonsense:
            topics = [_refuse_topic(topic) for topic in each.topics]
        else:
            topics = [_write_topic(broker, topic, marker, pending) for topic in each.topics]
        response.markers.append(
            WritableTxnMarkerResult(producer_id=each.producer_id, topics=topics)
        )
    return _wait(broker, pending, response) if pending else response


def _write_topic(
    broker: Broker, topic: WritableTxnMarkerTopic, marker: Marker, pending: _Pending
) -> WritableTxnMarkerTopicResult:
    results = []
    for index in topic.partition_indexes:
        written = append_here(broker, topic.name, index, marker)
        result = WritableTxnMarkerPartitionResult(partition_index=index)
        results.append(result)
        if isinstance(written, ErrorCode):
            not_ready = written in _NOT_READY
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if not_ready else written
            continue
        partition, appended = written
        if partition.high_watermark < appended.end_offset:
            committed: asyncio.Future[ErrorCode] = broker.loop.create_future()
            partition.await_commit(appended.end_offset, committed)
            pending.append((result, committed))
    return WritableTxnMarkerTopicResult(name=topic.name, partitions=results)


def _refuse_topic(topic: WritableTxnMarkerTopic) -> WritableTxnMarkerTopicResult:
    """Nobody writes without an id and an epoch. Kafka knows no better error for it."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    return WritableTxnMarkerTopicResult(
        name=topic.name,
        partitions=[
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
            for index in topic.partition_indexes
        ],
    )


async def _wait(
    broker: Broker, pending: _Pending, response: WriteTxnMarkersResponse
) -> WriteTxnMarkersResponse:
    timeout = broker.config.get_int("request.timeout.ms") / 1000
    await asyncio.wait([committed for _, committed in pending], timeout=timeout)
    for result, committed in pending:
        if committed.done():
            result.error_code = committed.result()
        else:
            committed.cancel()
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return response
