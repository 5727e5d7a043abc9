"""Who leads instead: what goes into an answer that says that this node does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.produce import LeaderIdAndEpoch

if TYPE_CHECKING:
    from penstock.protocol.generated.produce import ProduceResponse
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def point_at_leader(broker: Broker, call: Call, response: ProduceResponse) -> ProduceResponse:
    """Add the current leader to each partition that asked the wrong node, from version 10 on."""
    if call.version < 10:
        return response
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code in _MOVED:
                found = broker.find_partition(topic.topic_id, topic.name, answer.index)
                if found is not None:
                    answer.current_leader = LeaderIdAndEpoch(
                        leader_id=found.leader, leader_epoch=found.leader_epoch
                    )
    return response
