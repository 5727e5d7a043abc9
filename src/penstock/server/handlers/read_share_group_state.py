"""ReadShareGroupState, version 0: what a share group has done with partitions so far.

A leader asks the share coordinator when it begins to serve the group. That it asks fences leaders
before it. Only brokers may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.share.reading import read
from penstock.coordination.share.state import Told
from penstock.protocol.generated.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from penstock.server.share_state import answer_each, message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.coordination.delivery.effects import Held
    from penstock.protocol.generated.read_share_group_state import ReadShareGroupStateRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_state import Rows

    Answer = ReadShareGroupStateResponse | Awaitable[ReadShareGroupStateResponse]


def handle(broker: Broker, call: Call, request: ReadShareGroupStateRequest) -> Answer:
    """Partition by partition; a leader that is new is written down first."""

    def act(item: Any) -> Any:
        return lambda shard, at, out, key: read(shard, at, out, key, item.leader_epoch)

    return answer_each(broker, call, request, act, _respond)


def _respond(rows: Rows) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(
                topic_id=topic_id,
                partitions=[_result(item.partition, told) for item, told in items],
            )
            for topic_id, items in rows
        ]
    )


def _result(partition: int, told: Held | Told) -> PartitionResult:
    if isinstance(told, Told):
        return PartitionResult(
            partition=partition, error_code=told.error, error_message=message_of(told)
        )
    return PartitionResult(
        partition=partition,
        state_epoch=told.state_epoch,
        start_offset=told.start,
        state_batches=[
            StateBatch(
                first_offset=it.first,
                last_offset=it.last,
                delivery_state=it.state,
                delivery_count=it.count,
                not_before=it.not_before,
            )
            for it in told.batches
        ],
    )
