"""DeleteRecords, versions 0 to 2: move the beginning of a partition forward.

An offset of -1 means all that is committed. The answer carries the lowest beginning among the live
replicas. Records of internal topics, and of topics that are only compacted, are not for clients
to delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.server.leadership import find_led

if TYPE_CHECKING:
    from penstock.protocol.generated.delete_records import DeleteRecordsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

ALL_COMMITTED = -1
NO_WATERMARK = -1


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse:
    """Delete partition by partition; one that is refused does not stop the others."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _result(
                        item.partition_index,
                        _delete(broker, topic.name, item.partition_index, item.offset),
                    )
                    for item in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(broker: Broker, topic: str, index: int, offset: int) -> int | ErrorCode:
    """The new beginning of the partition, or why it stays where it is."""
    partition = find_led(broker, topic, index)
    if isinstance(partition, ErrorCode):
        return partition
    if partition.internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    log = partition.log
    if log.config.cleanup_compact and not log.config.cleanup_delete:
        return ErrorCode.POLICY_VIOLATION
    start = partition.high_watermark if offset == ALL_COMMITTED else offset
    if start < 0 or start > partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    log.advance_start(start)
    return log.start


def _result(index: int, outcome: int | ErrorCode) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_WATERMARK, error_code=outcome
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=outcome)
