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
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import PartitionImage
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker

NO_EPOCH = -1


def find_led(
    broker: Broker,
    topic: str,
    index: int,
    leader_epoch: int = NO_EPOCH,
    leader_only: bool = True,
) -> Partition | ErrorCode:
    """A partition that this node leads, in the epoch that the client believes in, or why not.

    Tools that look at one replica after the other ask for any, with `leader_only` False.
    """
    partition = broker.hosted.get((topic, index))
    if partition is None:
        return broker.why_not_hosted(topic, index)
    if partition.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return partition.check_epoch(leader_epoch, leader_only) or partition


class Reachable:
    """The nodes as clients of one listener can reach them; made once for an answer."""

    __slots__ = ("_directories", "_nodes", "image")

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self.image = image
        brokers = image.cluster.brokers
        self._nodes = {
            node_id for node_id, node in brokers.items() if node.endpoint(listener) is not None
        }
        self._directories = {
            node_id: node.directories
            for node_id, node in brokers.items()
            if node_id in self._nodes and not node.fenced
        }

    def leader(self, state: PartitionImage) -> int:
        """The leader's id, or -1 if there is none that the client could ask."""
        return state.leader if state.leader in self._nodes else NO_NODE

    def offline_replicas(self, state: PartitionImage) -> list[int]:
        """Replicas on brokers that are gone, fenced, or without this listener or the directory."""
        offline = []
        for node_id, directory in zip(state.replicas, state.directories, strict=True):
            online = self._directories.get(node_id)
            if online is None or (directory not in online and _is_lost(directory, online)):
                offline.append(node_id)
        return offline


def _is_lost(directory: bytes, online: tuple[bytes, ...]) -> bool:
    if directory == DIRECTORY_LOST:
        return True
    # A broker that has yet to say where the replica lies has nothing wrong with it so far.
    return directory not in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING) and bool(online)
