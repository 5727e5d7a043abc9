"""ReadShareGroupStateSummary, versions 0 and 1: how far a share group has come on partitions.

Asked by the group coordinator, for those who describe offsets. From version 1 on the answer tells
how many records after the first that is not done with are. Only brokers may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.share.reading import summarize
from penstock.coordination.share.state import Told
from penstock.protocol.generated.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from penstock.server.share_state import answer_each, message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.coordination.share.state import Summary
    from penstock.protocol.generated.read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_state import Rows

    Answer = ReadShareGroupStateSummaryResponse | Awaitable[ReadShareGroupStateSummaryResponse]


def handle(broker: Broker, call: Call, request: ReadShareGroupStateSummaryRequest) -> Answer:
    """Partition by partition; one that the group never read has no offset."""

    def act(_: Any) -> Any:
        return summarize

    return answer_each(broker, call, request, act, _respond)


def _respond(rows: Rows) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
                topic_id=topic_id,
                partitions=[_result(item.partition, told) for item, told in items],
            )
            for topic_id, items in rows
        ]
    )


def _result(partition: int, told: Summary | Told) -> PartitionResult:
    if isinstance(told, Told):
        return PartitionResult(
            partition=partition, error_code=told.error, error_message=message_of(told)
        )
    return PartitionResult(
        partition=partition,
        state_epoch=told.state_epoch,
        leader_epoch=told.leader_epoch,
        start_offset=told.start,
        delivery_complete_count=told.complete,
    )
