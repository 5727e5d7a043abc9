"""Loading everything that a log directory holds."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from penstock.model.ids import ZERO_UUID, TopicPartition
from penstock.storage import checkpoints, names
from penstock.storage.context import LogContext
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory
from penstock.storage.recovery import load_log

THREADS_FROM = 64  # logs: fewer are loaded before a thread has started

ConfigOf = Callable[[str], LogConfig]
"""Answers the configuration of a topic."""


class Loaded(NamedTuple):
    """What was found."""

    logs: list[Log]
    """Copies of moves under way included: their directories end with `-future`."""
    high_watermarks: dict[TopicPartition, int]


def load_directory(
    context: LogContext, directory: LogDirectory, config_of: ConfigOf, threads_max: int, now: int
) -> Loaded:
    """Load every log in `directory`, several at a time: threads wait for the disk, not for us.

    Blocks the calling thread, which must be the disk's own: meanwhile nobody takes descriptors
    back from the threads.
    """
    disk, path = context.disk, directory.path
    points = directory.read_offsets(checkpoints.RECOVERY_POINTS)
    starts = directory.read_offsets(checkpoints.LOG_STARTS)
    watermarks = directory.read_offsets(checkpoints.HIGH_WATERMARKS)

    def load(found: tuple[str, TopicPartition]) -> Log:
        name, partition = found
        where = f"{path}/{name}"
        is_copy = name.endswith(names.FUTURE_DIRECTORY)  # no checkpoint speaks of copies
        log = load_log(
            context,
            partition,
            checkpoints.read_topic_id(disk, where) or ZERO_UUID,
            where,
            config_of(partition.topic),
            clean=directory.was_clean and not is_copy,
            recovery_point=0 if is_copy else points.get(partition, 0),
            start=0 if is_copy else starts.get(partition, 0),
            now=now,
        )
        log.point_kept = points.get(partition, 0)
        watermark = watermarks.get(partition, log.start)
        log.high_watermark = min(max(watermark, log.start), log.end)
        return log

    found = _logs_in(context, path)
    if len(found) < THREADS_FROM or threads_max < 2:
        return Loaded([load(each) for each in found], watermarks)
    with ThreadPoolExecutor(threads_max) as threads:
        return Loaded(list(threads.map(load, found)), watermarks)


def _logs_in(context: LogContext, path: str) -> list[tuple[str, TopicPartition]]:
    """Directories that hold logs, copies included. Those on their way out become trash."""
    found = []
    for name in context.disk.list_directories(path):
        partition = names.partition_of(name)
        if partition is None:
            partition = names.marked_partition_of(name, names.FUTURE_DIRECTORY)
        if partition is not None and partition.topic != names.METADATA_TOPIC:
            found.append((name, partition))
        elif name.endswith(names.DELETE_DIRECTORY):
            context.trash.add(0, [os.path.join(path, name)], [])
    return found
