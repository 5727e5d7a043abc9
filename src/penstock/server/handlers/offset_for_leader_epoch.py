"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended in this leader's log.

A follower truncates to it; a consumer learns from it that what it read was lost in an election.
An epoch that this log never heard of is answered with -1 and no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from penstock.server.leadership import find_led

if TYPE_CHECKING:
    from penstock.protocol.generated.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse:
    """Answer partition by partition, from the epochs that this node's logs remember."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end_offset(broker, topic.topic, item) for item in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end_offset(broker: Broker, topic: str, item: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=item.partition)
    partition = find_led(broker, topic, item.partition, item.current_leader_epoch)
    if isinstance(partition, ErrorCode):
        answer.error_code = partition
        return answer
    log = partition.log
    answer.leader_epoch, answer.end_offset = log.epochs.end_offset_for(item.leader_epoch, log.end)
    return answer
