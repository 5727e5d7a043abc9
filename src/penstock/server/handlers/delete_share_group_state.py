"""DeleteShareGroupState, version 0: a share group has nothing to do with partitions any more.

Asked by the group coordinator when a group or its offsets are deleted. Only brokers may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.share.beginning import delete
from penstock.protocol.generated.delete_share_group_state import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from penstock.server.share_state import answer_each, message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.delete_share_group_state import DeleteShareGroupStateRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_state import Rows

    Answer = DeleteShareGroupStateResponse | Awaitable[DeleteShareGroupStateResponse]


def handle(broker: Broker, call: Call, request: DeleteShareGroupStateRequest) -> Answer:
    """Partition by partition; what is not there counts as deleted."""

    def act(_: Any) -> Any:
        return delete

    return answer_each(broker, call, request, act, _respond)


def _respond(rows: Rows) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
                topic_id=topic_id,
                partitions=[
                    PartitionResult(
                        partition=item.partition,
                        error_code=told.error,
                        error_message=message_of(told),
                    )
                    for item, told in items
                ],
            )
            for topic_id, items in rows
        ]
    )
