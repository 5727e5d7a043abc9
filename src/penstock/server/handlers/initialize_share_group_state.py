"""InitializeShareGroupState, version 0: a share group begins with partitions.

The group coordinator asks the share coordinator, before members are assigned partitions that are
new to the group and when somebody resets its offsets. Only brokers may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.share.beginning import initialize
from penstock.protocol.generated.initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from penstock.server.share_state import answer_each, message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.initialize_share_group_state import (
        InitializeShareGroupStateRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_state import Rows

    Answer = InitializeShareGroupStateResponse | Awaitable[InitializeShareGroupStateResponse]


def handle(broker: Broker, call: Call, request: InitializeShareGroupStateRequest) -> Answer:
    """Partition by partition, when the coordinator has written it down."""

    def act(item: Any) -> Any:
        return lambda shard, at, out, key: initialize(
            shard, at, out, key, item.state_epoch, item.start_offset
        )

    return answer_each(broker, call, request, act, _respond)


def _respond(rows: Rows) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
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
