"""AlterReplicaLogDirs, versions 1 and 2: move replicas of this node to other directories.

The answer says whether a move begins, not that it ended: DescribeLogDirs shows how far it is. A
partition that is named twice goes where it was named last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.server import audit
from penstock.storage.names import DIRECTORY_NAME_MAX, FUTURE_DIRECTORY

if TYPE_CHECKING:
    from penstock.protocol.generated.alter_replica_log_dirs import AlterReplicaLogDirsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_UNIQUE = "0" * 32


def handle(
    broker: Broker, call: Call, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin what can be begun, partition by partition."""
    wanted = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, index), path in wanted.items():
        result = results.get(topic)
        if result is None:
            result = results[topic] = AlterReplicaLogDirTopicResult(topic_name=topic)
        error = _move(broker, topic, index, path)
        result.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
        )
    moved = [
        topic
        for topic, result in results.items()
        if any(not each.error_code for each in result.partitions)
    ]
    if moved:
        audit.changed(call, "move replicas to other directories", {"topics": moved})
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, topic: str, index: int, path: str) -> ErrorCode:
    if len(f"{topic}-{index}.{_UNIQUE}{FUTURE_DIRECTORY}") > DIRECTORY_NAME_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION  # the copy could not be named
    directory = next((each for each in broker.store.directories if each.path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not directory.online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = broker.hosted.get((topic, index))
    if partition is None:
        why = broker.why_not_hosted(topic, index)
        # Of old, and kept for the clients that know it: no replica here is not available.
        elsewhere = why == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.REPLICA_NOT_AVAILABLE if elsewhere else why
    if partition.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        broker.log_moves.request(partition, directory)
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
