"""CancelDelayedRecords, version 0, Penstock's own: let delayed records never be delivered. It takes
a right to write to the topic.

A record is named by the offset that its producer was told, and found faster if its time is named
too. The answer lists those that were cancelled, when all in-sync replicas know; others were not
waiting any more, or not yet: a transaction's records can be cancelled from its commit on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.cancel_delayed_records import (
    CancelDelayedRecordsResponse,
    CancelledPartition,
    CancelledTopic,
)
from penstock.replica.delay_delivery import cancel
from penstock.replica.outcomes import Refused
from penstock.server import audit
from penstock.server.leadership import find_led
from penstock.server.topic_rights import refused_topics
from penstock.storage.delay_batches import Row

if TYPE_CHECKING:
    from penstock.protocol.generated.cancel_delayed_records import (
        CancelDelayedPartition,
        CancelDelayedRecord,
        CancelDelayedRecordsRequest,
    )
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.storage.delay_index import DelayIndex

RECORDS_MAX = 10_000
"""Of one partition in one request."""
BATCH_MAX = 1_000
"""Of those in one batch."""


async def handle(
    broker: Broker, call: Call, request: CancelDelayedRecordsRequest
) -> CancelDelayedRecordsResponse:
    """Cancel partition by partition; one that is refused does not stop the others."""
    names = (topic.name for topic in request.topics)
    unauthorized = refused_topics(broker, call, Operation.WRITE, names)
    response = CancelDelayedRecordsResponse(
        topics=[
            CancelledTopic(
                name=topic.name,
                partitions=[
                    _refused(each.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    if topic.name in unauthorized
                    else await _cancel(broker, topic.name, each, request.timeout_ms)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    changed = [
        topic.name for topic in response.topics if any(each.offsets for each in topic.partitions)
    ]
    if changed:
        audit.changed(call, "cancel delayed records", {"topics": changed})
    return response


async def _cancel(
    broker: Broker, topic: str, asked: CancelDelayedPartition, timeout_ms: int
) -> CancelledPartition:
    index = asked.partition_index
    partition = find_led(broker, topic, index)
    if isinstance(partition, ErrorCode):
        return _refused(index, partition)
    if len(asked.records) > RECORDS_MAX:
        why = f"{len(asked.records)} records, and {RECORDS_MAX} is the most in one request"
        return _refused(index, ErrorCode.INVALID_REQUEST, why)
    await asyncio.sleep(0)  # what comes may look at a million: others have their turn in between
    delays = partition.log.delays
    if delays is None:
        return CancelledPartition(partition_index=index)
    rows = _find(delays, asked.records)
    answer = CancelledPartition(partition_index=index)
    for at in range(0, len(rows), BATCH_MAX):
        batch = rows[at : at + BATCH_MAX]
        result = cancel(partition, batch, broker.clock.now())
        if isinstance(result, Refused):
            answer.error_code = result.error
            answer.error_message = result.message
            break
        answer.offsets += [row.id for row in batch]
    if answer.offsets:
        await _wait(partition, answer, timeout_ms)
    return answer


def _find(delays: DelayIndex, records: list[CancelDelayedRecord]) -> list[Row]:
    """Those of the records that wait, each once."""
    dues = delays.waiting.dues_of({each.offset for each in records if each.deliver_at < 0})
    found: dict[int, Row] = {}
    for record in records:
        due = dues.get(record.offset, -1) if record.deliver_at < 0 else record.deliver_at
        if (due, record.offset) in delays.waiting:
            found[record.offset] = Row(due, record.offset, -1)
    return list(found.values())


async def _wait(partition: Partition, answer: CancelledPartition, timeout_ms: int) -> None:
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    partition.await_commit(partition.log.end, future)
    await asyncio.wait([future], timeout=max(timeout_ms, 0) / 1000)
    if future.done():
        answer.error_code = answer.error_code or future.result()
    else:
        future.cancel()
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT


def _refused(index: int, error: ErrorCode, why: str | None = None) -> CancelledPartition:
    return CancelledPartition(partition_index=index, error_code=error, error_message=why)
