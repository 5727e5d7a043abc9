"""Who leads a partition, for requests that only its leader may answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.topics import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
)
from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE

if TYPE_CHECKING:
    from penstock.metadata.cluster import BrokerImage
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import PartitionImage
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker

NO_EPOCH = -1


def find_led(
    broker: Broker, topic: str, index: int, leader_epoch: int = NO_EPOCH
) -> Partition | ErrorCode:
    """A partition that this node leads, in the epoch that the client believes in, or why not."""
    partition = broker.hosted.get((topic, index))
    if partition is None:
        return broker.why_not_hosted(topic, index)
    if partition.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return partition.check_epoch(leader_epoch) or partition


def reachable_leader(image: MetadataImage, state: PartitionImage, listener: str) -> int:
    """The leader's id, or -1 if there is none that a client of this listener could ask."""
    leader = image.cluster.brokers.get(state.leader)
    return NO_NODE if leader is None or leader.endpoint(listener) is None else state.leader


def offline_replicas(image: MetadataImage, state: PartitionImage, listener: str) -> list[int]:
    """Replicas on brokers that are gone, fenced, or without this listener or the directory."""
    brokers = image.cluster.brokers
    offline = []
    for node_id, directory in zip(state.replicas, state.directories, strict=True):
        node = brokers.get(node_id)
        if (
            node is None
            or node.fenced
            or node.endpoint(listener) is None
            or not _is_online(node, directory)
        ):
            offline.append(node_id)
    return offline


def _is_online(node: BrokerImage, directory: bytes) -> bool:
    if directory == DIRECTORY_LOST:
        return False
    if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
        return True  # the broker has yet to say where it is, and so far nothing is wrong
    return not node.directories or directory in node.directories
