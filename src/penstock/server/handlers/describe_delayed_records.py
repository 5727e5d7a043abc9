"""DescribeDelayedRecords, version 0, Penstock's own: which records wait for their time, a page at a
time, in the order in which they are due. It takes a right to read the topic.

A page goes on behind the time and offset of the last record of the page before. `offset` is what
the producer of the record was told; when it is delivered, it gets another.
"""

from __future__ import annotations

import asyncio
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.describe_delayed_records import (
    DelayedPartition,
    DelayedRecord,
    DelayedTopic,
    DescribeDelayedRecordsResponse,
)
from penstock.records.varint import read_varint
from penstock.server.leadership import find_led
from penstock.server.topic_rights import refused_topics
from penstock.storage.segment import CorruptSegment

if TYPE_CHECKING:
    from penstock.protocol.generated.describe_delayed_records import (
        DelayedPartitionRequest,
        DescribeDelayedRecordsRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.storage.delay_batches import Row
    from penstock.storage.delay_index import DelayIndex
    from penstock.storage.delay_reading import Parked

RECORDS_MAX = 1_000
"""Of one partition in one answer."""
PAGE_BYTES_MAX = 4 << 20
"""Of parked records that are read for one partition's page."""
ANSWER_BYTES_MAX = 32 << 20
"""Of those that are read for one answer: partitions beyond that have an empty page, and more."""


async def handle(
    broker: Broker, call: Call, request: DescribeDelayedRecordsRequest
) -> DescribeDelayedRecordsResponse:
    """Look partition by partition."""
    names = (topic.name for topic in request.topics)
    unauthorized = refused_topics(broker, call, Operation.READ, names)
    response = DescribeDelayedRecordsResponse()
    room = ANSWER_BYTES_MAX
    for topic in request.topics:
        told = DelayedTopic(name=topic.name)
        response.topics.append(told)
        for each in topic.partitions:
            if topic.name in unauthorized:
                page, size = _refused(each.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0
            else:
                page, size = await _describe(broker, request, topic.name, each, room)
                await asyncio.sleep(0)  # there may be many, each with work of milliseconds
            told.partitions.append(page)
            room -= size
    return response


async def _describe(
    broker: Broker,
    request: DescribeDelayedRecordsRequest,
    topic: str,
    asked: DelayedPartitionRequest,
    room: int,
) -> tuple[DelayedPartition, int]:
    """A partition's page, and how many bytes were read for it."""
    index = asked.partition_index
    partition = find_led(broker, topic, index)
    if isinstance(partition, ErrorCode):
        return _refused(index, partition), 0
    delays = partition.log.delays
    if delays is None:
        return DelayedPartition(partition_index=index), 0
    count = max(min(request.records_max, RECORDS_MAX), 0) if room > 0 else 0
    rows = _rows(delays, request, asked, count + 1)
    try:
        parked = await broker.delays.read(partition.log, rows[:count], PAGE_BYTES_MAX)
    except (OSError, CorruptSegment) as problem:
        return _refused(index, ErrorCode.KAFKA_STORAGE_ERROR, str(problem)), 0
    page = DelayedPartition(
        partition_index=index,
        total=len(delays.waiting),
        records=[_record(each) for each in parked if each.body is not None],
        has_more=len(rows) > len(parked),
    )
    return page, sum(len(each.body or b"") for each in parked)


def _rows(
    delays: DelayIndex,
    request: DescribeDelayedRecordsRequest,
    asked: DelayedPartitionRequest,
    count: int,
) -> list[Row]:
    first = max((request.from_time, -1), (asked.after_time, asked.after_offset + 1))
    found = takewhile(lambda row: row.due < request.before_time, delays.waiting.rows_from(*first))
    return list(islice(found, count))


def _record(parked: Parked) -> DelayedRecord:
    body = parked.body or b""
    size, at = read_varint(body, 0)
    key = body[at : at + size] if size >= 0 else None
    value_size, _ = read_varint(body, at + max(size, 0))
    return DelayedRecord(
        offset=parked.row.id, deliver_at=parked.row.due, key=key, value_size=value_size
    )


def _refused(index: int, error: ErrorCode, why: str | None = None) -> DelayedPartition:
    return DelayedPartition(partition_index=index, error_code=error, error_message=why)
