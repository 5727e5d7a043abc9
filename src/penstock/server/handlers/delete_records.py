"""DeleteRecords, versions 0 to 2: move the beginning of a partition forward.

An offset of -1 means all that is committed. The answer carries the lowest beginning among the live
replicas, and waits until it is as high as was asked for. Records of internal topics, and of topics
that are only compacted, are not for clients to delete; of others, it takes a right to the topic.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.replica.leading import low_watermark
from penstock.server import audit
from penstock.server.leadership import find_led
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.delete_records import DeleteRecordsRequest
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call

ALL_COMMITTED = -1
NO_WATERMARK = -1


_Pending = list[tuple[DeleteRecordsPartitionResult, "Partition", "asyncio.Future[ErrorCode]"]]


def handle(
    broker: Broker, call: Call, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    """Delete partition by partition; one that is refused does not stop the others."""
    pending: _Pending = []
    names = (topic.name for topic in request.topics)
    unauthorized = refused_topics(broker, call, Operation.DELETE, names)
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _refused(item.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    if topic.name in unauthorized
                    else _delete(broker, topic.name, item.partition_index, item.offset, pending)
                    for item in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    deleted = [
        topic.name
        for topic in response.topics
        if any(not each.error_code for each in topic.partitions)
    ]
    if deleted:
        audit.changed(call, "delete records", {"topics": deleted})
    return _wait(pending, request.timeout_ms, response) if pending else response


def _delete(
    broker: Broker, topic: str, index: int, offset: int, pending: _Pending
) -> DeleteRecordsPartitionResult:
    """The new beginning of the partition, or why it stays where it is."""
    partition = find_led(broker, topic, index)
    if isinstance(partition, ErrorCode):
        return _refused(index, partition)
    if partition.internal:
        return _refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    log = partition.log
    if log.config.cleanup_compact and not log.config.cleanup_delete:
        return _refused(index, ErrorCode.POLICY_VIOLATION)
    start = partition.high_watermark if offset == ALL_COMMITTED else offset
    if start < 0 or start > partition.high_watermark:
        return _refused(index, ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.delete_to(start)
    low = low_watermark(partition)
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=low)
    if low < start:
        future: asyncio.Future[ErrorCode] = broker.loop.create_future()
        partition.waits.starts.append((start, future))
        pending.append((result, partition, future))
    return result


async def _wait(
    pending: _Pending, timeout_ms: int, response: DeleteRecordsResponse
) -> DeleteRecordsResponse:
    await asyncio.wait([future for _, _, future in pending], timeout=max(timeout_ms, 0) / 1000)
    for result, partition, future in pending:
        if future.done() and not future.result():
            result.low_watermark = low_watermark(partition)
            continue
        result.error_code = future.result() if future.done() else ErrorCode.REQUEST_TIMED_OUT
        future.cancel()
    return response


def _refused(index: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=NO_WATERMARK, error_code=error
    )
