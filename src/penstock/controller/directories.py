"""Which directory of a broker holds a replica, and what follows when one fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.controller import leaders
from penstock.controller.decision import Context, Decision
from penstock.metadata.levels import CORDONED_FROM, DIRECTORIES_FROM
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import assign_replicas_to_dirs as made
from penstock.protocol.generated.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)

if TYPE_CHECKING:
    from penstock.metadata.cluster import BrokerImage
    from penstock.metadata.topics import PartitionImage
    from penstock.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest


def changes_in_heartbeat(
    context: Context, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> list[Any]:
    """Directories that failed, and those that the operator closed to new replicas."""
    records: list[Any] = []
    offline = frozenset(request.offline_log_dirs).intersection(broker.directories)
    if offline:
        records.extend(leaders.after_directories_failed(context, broker.id, offline))
        left = [d for d in broker.directories if d not in offline]
        records.append(_change(broker, log_dirs=left))
    level = context.image.features.metadata_version
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and level >= CORDONED_FROM and tuple(cordoned) != broker.cordoned:
        records.append(_change(broker, cordoned_log_dirs=list(cordoned)))
    return records


def _change(broker: BrokerImage, **fields: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **fields)


def assign_replicas(context: Context, request: made.AssignReplicasToDirsRequest) -> Decision:
    """AssignReplicasToDirs: a broker tells where it put replicas that it could place freely."""
    error = _refused(context, request)
    if error is not None:
        return Decision([], made.AssignReplicasToDirsResponse(error_code=error))
    records: list[Any] = []
    directories = [
        made.AssignReplicasToDirsResponseDirectoryData(
            id=directory.id,
            topics=[
                made.AssignReplicasToDirsResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        made.AssignReplicasToDirsResponsePartitionData(
                            partition_index=p.partition_index,
                            error_code=_assign(
                                context,
                                request.broker_id,
                                (topic.topic_id, p.partition_index),
                                directory.id,
                                records,
                            ),
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in directory.topics
            ],
        )
        for directory in request.directories
    ]
    response = made.AssignReplicasToDirsResponse(directories=directories)
    return Decision(records, response, atomic=False)


def _refused(context: Context, request: made.AssignReplicasToDirsRequest) -> ErrorCode | None:
    if context.image.features.metadata_version < DIRECTORIES_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    if not context.speaks_for(request.broker_id, request.broker_epoch):
        return ErrorCode.STALE_BROKER_EPOCH
    return None


def _assign(
    context: Context,
    broker: int,
    where: tuple[bytes, int],
    directory: bytes,
    records: list[Any],
) -> ErrorCode:
    topic_id, index = where
    topic = context.image.topics.by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.directory_of(broker) != directory:
        records.append(
            PartitionChangeRecord(
                partition_id=index,
                topic_id=topic_id,
                directories=_with(partition, broker, directory),
            )
        )
    if directory not in context.image.cluster.brokers[broker].directories:
        change = leaders.without_replica(context, topic, index, broker)
        if change is not None:
            records.append(change)
    return ErrorCode.NONE


def _with(partition: PartitionImage, broker: int, directory: bytes) -> list[bytes]:
    pairs = zip(partition.replicas, partition.directories, strict=True)
    return [directory if node == broker else current for node, current in pairs]
