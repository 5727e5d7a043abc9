"""WriteShareGroupState, versions 0 and 1: what became of a share group's records.

The leader of a partition asks the share coordinator to keep it, under the epoch of its own lead and
that of the state: whoever has an older one is told, and reads anew. From version 1 on it also says
how many records are done with. Only brokers may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.delivery.effects import State, StateBatch
from penstock.coordination.share.state import Told
from penstock.coordination.share.updating import Writing, write
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from penstock.server.share_state import answer_each, message_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.write_share_group_state import (
        PartitionData,
        WriteShareGroupStateRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.server.share_state import Rows

    Answer = WriteShareGroupStateResponse | Awaitable[WriteShareGroupStateResponse]


def handle(broker: Broker, call: Call, request: WriteShareGroupStateRequest) -> Answer:
    """Partition by partition, when the coordinator has written it down."""

    def act(item: PartitionData) -> Any:
        said = _said(item)
        if said is None:
            told = Told(ErrorCode.INVALID_REQUEST, "there is no such state of a record")
            return lambda *_: told
        return lambda shard, at, out, key: write(shard, at, out, key, said)

    return answer_each(broker, call, request, act, _respond)


def _said(item: PartitionData) -> Writing | None:
    try:
        batches = [
            StateBatch(
                it.first_offset,
                it.last_offset,
                State(it.delivery_state),
                it.delivery_count,
                Millis(it.not_before),
            )
            for it in item.state_batches
        ]
    except ValueError:
        return None
    return Writing(
        item.state_epoch,
        item.leader_epoch,
        item.start_offset,
        item.delivery_complete_count,
        batches,
    )


def _respond(rows: Rows) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
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
