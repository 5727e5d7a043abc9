"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended in this leader's log.

A follower truncates to it; a consumer learns from it that what it read was lost in an election.
An epoch that this log never heard of is answered with -1 and no error. Followers need a right to
act for the cluster, consumers one to describe the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from penstock.server.leadership import find_led
from penstock.server.rights import may_cluster
from penstock.server.topic_rights import NO_TOPICS, refused_topics

if TYPE_CHECKING:
    from penstock.protocol.generated.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer partition by partition, from the epochs that this node's logs remember."""
    unauthorized = NO_TOPICS
    if not may_cluster(broker, call, Operation.CLUSTER_ACTION, tells=False):
        names = (topic.topic for topic in request.topics)
        unauthorized = refused_topics(broker, call, Operation.DESCRIBE, names)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _unauthorized(item)
                    if topic.topic in unauthorized
                    else _end_offset(broker, topic.topic, item)
                    for item in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _unauthorized(item: OffsetForLeaderPartition) -> EpochEndOffset:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return EpochEndOffset(partition=item.partition, error_code=error)


def _end_offset(broker: Broker, topic: str, item: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=item.partition)
    partition = find_led(broker, topic, item.partition, item.current_leader_epoch)
    if isinstance(partition, ErrorCode):
        answer.error_code = partition
        return answer
    log = partition.log
    answer.leader_epoch, answer.end_offset = log.epochs.end_offset_for(item.leader_epoch, log.end)
    return answer
