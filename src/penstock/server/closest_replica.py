"""Reading from the closest replica: whom a consumer in a rack should ask, if not the leader.

The leader knows who is in sync and how far each one is, so the choice is its own. Only a replica
that is in sync is worth the way: another would fall behind further, and its consumers with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.replica.leading import in_sync_followers

if TYPE_CHECKING:
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NOBODY = -1


def closest_replica(
    broker: Broker, partition: Partition, offset: int, rack: str, listener: str
) -> int:
    """The node to ask for what lies at `offset`, or NOBODY if the leader is as good as any."""
    nodes = broker.image.cluster.brokers
    own = nodes.get(broker.node_id)
    if own is not None and own.rack == rack:
        return NOBODY
    best, furthest = NOBODY, NOBODY
    for node_id, start, end in in_sync_followers(partition):
        node = nodes.get(node_id)
        if (
            node is not None
            and node.rack == rack
            and not node.fenced
            and node.endpoint(listener) is not None
            and start <= offset <= end
            and end > furthest
        ):
            best, furthest = node_id, end
    return best
