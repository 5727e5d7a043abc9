"""ListOffsets, versions 1 to 11: where a partition begins and ends, and what stands at a time.

A timestamp of 0 or more asks for the first record that is as young or younger. Negative ones are
questions of their own, each with the version that introduced it: the beginning (-2), the end (-1),
the youngest record (-3, from 7), the beginning of what lies on local disk (-4, from 8), the end of
what lies in tiered storage (-5, from 9), the beginning of what is still to be copied there (-6,
from 11). Consumers are told of nothing above what they may read. After an election the leader may
not know yet how far that is: consumers then hear OFFSET_NOT_AVAILABLE (from 5) rather than an end
that lies before the one which they heard from the last leader. It takes a right to describe topics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.records.compression import DecompressionFailed
from penstock.records.varint import InvalidRecord
from penstock.server.leadership import find_led
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from penstock.protocol.generated.list_offsets import ListOffsetsPartition, ListOffsetsRequest
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call

LATEST = -1
EARLIEST = -2
YOUNGEST = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    YOUNGEST: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

SLICE_SECONDS = 0.02

CONSUMER = -1
DEBUGGER = -2
"""A tool that looks at one replica after the other."""
NOT_AVAILABLE_FROM = 5
READ_COMMITTED = 1


def handle(
    broker: Broker, call: Call, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answer partition by partition, from this node's logs."""
    response = ListOffsetsResponse()
    steps = _answer_all(broker, call, request, response)
    if any(_is_search(item) for topic in request.topics for item in topic.partitions):
        return _in_slices(steps, response)
    for _ in steps:
        pass
    return response


def _is_search(item: ListOffsetsPartition) -> bool:
    """Whether records have to be read to answer."""
    return item.timestamp >= 0 or item.timestamp == YOUNGEST


async def _in_slices(steps: Iterator[None], response: ListOffsetsResponse) -> ListOffsetsResponse:
    """A search reads up to a whole batch, and there may be thousands: others get their turn."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SLICE_SECONDS
    for _ in steps:
        if loop.time() > until:
            await asyncio.sleep(0)
            until = loop.time() + SLICE_SECONDS
    return response


def _answer_all(
    broker: Broker, call: Call, request: ListOffsetsRequest, response: ListOffsetsResponse
) -> Iterator[None]:
    """Fill the response, one partition a step."""
    names = (topic.name for topic in request.topics)
    unauthorized = refused_topics(broker, call, Operation.DESCRIBE, names)
    asked = Counter(
        (topic.name, item.partition_index) for topic in request.topics for item in topic.partitions
    )
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answer)
        if topic.name in unauthorized:
            answer.partitions = [
                _refused(item, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for item in topic.partitions
            ]
            continue
        # One that is asked for twice is refused, and once is enough.
        for index, item in {item.partition_index: item for item in topic.partitions}.items():
            answer.partitions.append(
                _refused(item, ErrorCode.INVALID_REQUEST)
                if asked[topic.name, index] > 1
                else _answer(broker, call, request, topic.name, item)
            )
            yield


def _answer(
    broker: Broker, call: Call, request: ListOffsetsRequest, topic: str, item: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    timestamp = item.timestamp
    if timestamp < 0 and call.version < SINCE_VERSION.get(timestamp, call.version + 1):
        return _refused(item, ErrorCode.UNSUPPORTED_VERSION)
    partition = find_led(
        broker,
        topic,
        item.partition_index,
        item.current_leader_epoch,
        leader_only=request.replica_id != DEBUGGER,
    )
    if isinstance(partition, ErrorCode):
        return _refused(item, partition)
    try:
        found = _find(partition, timestamp, _ceiling(partition, request))
    except OSError:
        return _refused(item, ErrorCode.KAFKA_STORAGE_ERROR)
    except (InvalidRecord, DecompressionFailed):
        # Nobody looked inside the batch when it was produced; a search by time is the first to.
        return _refused(item, ErrorCode.CORRUPT_MESSAGE)
    early = request.replica_id == CONSUMER and _is_early(partition)
    if early and _depends_on_end(timestamp, found):
        known = call.version >= NOT_AVAILABLE_FROM
        error = ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE
        return _refused(item, error)
    answer = ListOffsetsPartitionResponse(partition_index=item.partition_index)
    if found is not None:
        answer.timestamp, answer.offset, epoch = found
        if call.version >= 4:
            answer.leader_epoch = epoch
    return answer


def _ceiling(partition: Partition, request: ListOffsetsRequest) -> int:
    """The end of what the asker may read: consumers, of committed data only; replicas, of all."""
    if request.replica_id != CONSUMER:
        return partition.log.end
    committed_only = request.isolation_level == READ_COMMITTED
    return partition.last_stable if committed_only else partition.high_watermark


def _is_early(partition: Partition) -> bool:
    """Whether more may be committed than this leader, elected a moment ago, can tell."""
    return partition.leading and partition.leader_start > partition.high_watermark


def _depends_on_end(timestamp: int, found: tuple[int, int, int] | None) -> bool:
    return timestamp == LATEST or (found is None and (timestamp >= 0 or timestamp == YOUNGEST))


def _find(partition: Partition, timestamp: int, ceiling: int) -> tuple[int, int, int] | None:
    """Timestamp, offset and leader epoch of what was asked for; None if there is no such record."""
    log = partition.log
    if timestamp == LATEST:
        return -1, ceiling, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start, log.epochs.epoch_for(log.start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None  # no topic of this node has tiered storage
    found = log.find_max_timestamp() if timestamp == YOUNGEST else log.find_timestamp(timestamp)
    return None if found is None or found.offset >= ceiling else found


def _refused(item: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=item.partition_index, error_code=error)
