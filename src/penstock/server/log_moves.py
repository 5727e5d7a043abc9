"""Moving logs from one directory of a node to another, for AlterReplicaLogDirs.

A copy, which Kafka calls the future log, follows the log while everyone goes on reading and
writing. When it has caught up it takes the log's place, in one step without a pause. A move that
a stop interrupts is forgotten, and its copy is removed: it has to be asked for again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.model.ids import TopicPartition
from penstock.protocol.api_keys import ApiKey
from penstock.server.log_copy import LogCopy
from penstock.storage import names
from penstock.storage.log import CorruptBatch

if TYPE_CHECKING:
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.storage.log_directory import LogDirectory

log = logging.getLogger("penstock.server")

CAUGHT_UP_BYTES = 256 * 1024
"""How far behind a copy may be to take its log's place: what is left is copied in one step."""


class LogMoves:
    """The moves of one broker, one at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.copies: dict[TopicPartition, LogCopy] = {}
        """What is to be moved, the first of them right now."""
        self._task: asyncio.Task[None] | None = None
        self._discard_leftovers()

    def request(self, partition: Partition, directory: LogDirectory) -> None:
        """Move a partition's log to `directory`; what was asked for it before is forgotten."""
        key = partition.log.topic_partition
        under_way = self.copies.get(key)
        if under_way is not None:
            if under_way.directory is directory:
                return
            self.cancel(key)
        store = self._broker.store
        if store.directory_of(partition.log) is directory:
            return
        self.copies[key] = LogCopy(store, partition.log, directory)
        if self._task is None:
            self._task = asyncio.ensure_future(self._work())

    def cancel(self, key: TopicPartition) -> None:
        """Forget a move, if there is one: the log stays where it is."""
        copy = self.copies.pop(key, None)
        if copy is not None:
            copy.discard()

    def stop(self) -> None:
        """Forget all moves."""
        for key in list(self.copies):
            self.cancel(key)
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        try:
            while self.copies:
                key, copy = next(iter(self.copies.items()))
                try:
                    await self._move(key, copy)
                except (OSError, CorruptBatch) as problem:
                    log.error("%s stays in its directory: %s", key, problem)
                if self.copies.get(key) is copy:
                    self.cancel(key)
        finally:
            self._task = None

    async def _move(self, key: TopicPartition, copy: LogCopy) -> None:
        broker = self._broker
        copy.begin()
        while await copy.follow(broker.workers) > CAUGHT_UP_BYTES:
            pass
        partition = broker.hosted.get(key)
        # It may have been cancelled, deleted or created anew while the copy followed.
        if (
            self.copies.get(key) is not copy
            or partition is None
            or partition.log is not copy.source
        ):
            return
        partition.use_log(copy.take_place())
        log.info("%s moved to %s", key, copy.directory.path)
        await self._tell_controller(partition, copy.directory)

    async def _tell_controller(self, partition: Partition, directory: LogDirectory) -> None:
        # Imported here: few nodes ever move a log, and all of them have to start fast.
        from penstock.protocol.generated import assign_replicas_to_dirs as codec

        where = codec.AssignReplicasToDirsRequestPartitionData(partition_index=partition.index)
        topic = codec.AssignReplicasToDirsRequestTopicData(
            topic_id=partition.topic_id, partitions=[where]
        )
        request = codec.AssignReplicasToDirsRequest(
            broker_id=self._broker.node_id,
            broker_epoch=self._broker.epoch,
            directories=[
                codec.AssignReplicasToDirsRequestDirectoryData(id=directory.uuid, topics=[topic])
            ],
        )
        response = await self._broker.controller.handle(
            int(ApiKey.ASSIGN_REPLICAS_TO_DIRS), request
        )
        if response.error_code:
            log.warning("the controller does not note where %s lies: %s", partition, response)

    def _discard_leftovers(self) -> None:
        store = self._broker.store
        if len(store.directories) == 1:
            return  # there was never anywhere to move to
        for directory in store.directories:
            if directory.online:
                for name in store.disk.list_directories(directory.path):
                    if name.endswith(names.FUTURE_DIRECTORY):
                        store.context.trash.add(0, [f"{directory.path}/{name}"], [])
