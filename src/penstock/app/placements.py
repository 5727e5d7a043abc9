"""Telling the controller in which directory each replica lies.

The broker chooses among its directories, and logs may move. Only if the controller knows where a
replica is can it tell what a failed directory took with it.
"""

from __future__ import annotations

from collections import defaultdict

from penstock.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from penstock.server.broker import Broker

ASSIGNMENTS_MAX = 2250
"""Replicas in one request, as in Kafka; the others follow with the next one."""


def misplaced(broker: Broker) -> AssignReplicasToDirsRequest | None:
    """What the controller does not know yet, or None."""
    found = _found(broker)
    if not found:
        return None
    return AssignReplicasToDirsRequest(
        broker_id=broker.node_id,
        broker_epoch=broker.epoch,
        directories=[
            AssignReplicasToDirsRequestDirectoryData(
                id=directory_id,
                topics=[
                    AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            AssignReplicasToDirsRequestPartitionData(partition_index=index)
                            for index in indexes
                        ],
                    )
                    for topic_id, indexes in by_topic.items()
                ],
            )
            for directory_id, by_topic in found.items()
        ],
    )


def _found(broker: Broker) -> dict[bytes, dict[bytes, list[int]]]:
    """Replicas that lie elsewhere than the metadata says, by directory and topic."""
    store = broker.store
    # A node with one directory need not ask where each log lies. But it does compare: the disk
    # may be a new one, and a replica in a directory that no broker has can never lead.
    sole = store.directories[0] if len(store.directories) == 1 else None
    found: dict[bytes, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
    count = 0
    topics = broker.image.topics.by_id
    for (topic_id, index), partition in broker.hosted_by_id.items():
        topic = topics.get(topic_id)
        state = None if topic is None else topic.partitions.get(index)
        if state is None or partition.offline:
            continue
        directory = sole or store.directory_of(partition.log)
        if directory.online and state.directory_of(broker.node_id) not in (directory.uuid, None):
            found[directory.uuid][topic_id].append(index)
            count += 1
            if count == ASSIGNMENTS_MAX:
                break
    return found
