"""DescribeLogDirs, versions 1 to 5: what lies in which directory, and how much room is left.

Null topics mean all partitions of this node. A directory whose disk failed is listed with
KAFKA_STORAGE_ERROR and nothing else. A replica on its way to another directory is there as well,
marked as future, with the offsets that it is behind. Total and usable bytes come with version 4,
cordoned directories with version 5.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from penstock.protocol.generated.describe_log_dirs import DescribeLogDirsRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call
    from penstock.storage.log import Log
    from penstock.storage.log_directory import LogDirectory


def handle(
    broker: Broker,
    call: Call,  # noqa: ARG001
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse:
    """Answer directory by directory."""
    logs: dict[str, list[Log]] = {}
    for log in _asked(broker, request):
        logs.setdefault(os.path.dirname(log.directory), []).append(log)
        move = broker.store.moves.get(log.topic_partition)
        if move is not None:
            logs.setdefault(move.target.path, []).append(move.copy)
    return DescribeLogDirsResponse(
        results=[
            _directory(broker, directory, logs.get(directory.path, []))
            for directory in broker.store.directories
        ]
    )


def _asked(broker: Broker, request: DescribeLogDirsRequest) -> list[Log]:
    logs = broker.store.logs
    if request.topics is None:
        return list(logs.values())
    wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return [log for key, log in logs.items() if key in wanted]


def _directory(broker: Broker, directory: LogDirectory, logs: list[Log]) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path)
    if not directory.online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    disk = broker.store.disk
    try:
        result.total_bytes = disk.total_bytes(directory.path)
        result.usable_bytes = disk.free_bytes(directory.path)
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.is_cordoned = _is_cordoned(broker, directory)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in logs:
        topic = topics.get(log.topic)
        if topic is None:
            topic = topics[log.topic] = DescribeLogDirsTopic(name=log.topic)
        topic.partitions.append(_partition(broker, log))
    result.topics = list(topics.values())
    return result


def _partition(broker: Broker, log: Log) -> DescribeLogDirsPartition:
    move = broker.store.moves.get(log.topic_partition)
    if move is not None and move.copy is log:
        lag, is_future = move.lag, True
    else:
        lag, is_future = max(log.high_watermark - log.end, 0), False
    return DescribeLogDirsPartition(
        partition_index=log.partition,
        partition_size=log.size,
        offset_lag=lag,
        is_future_key=is_future,
    )


def _is_cordoned(broker: Broker, directory: LogDirectory) -> bool:
    node = broker.image.cluster.brokers.get(broker.node_id)
    return node is not None and directory.uuid in (node.cordoned or ())
