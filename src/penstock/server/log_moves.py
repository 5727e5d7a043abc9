"""Logs on their way from one directory of this node to another, for AlterReplicaLogDirs.

Storage knows how a log is copied while it is in use (`storage.moves`). Here it is decided which
one is next, the partition is switched over, and the controller learns where the replica lies now.
A move that a stop interrupts goes on after the next start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.storage.log import CorruptBatch
from penstock.storage.moves import LogMove, carry_out
from penstock.storage.names import FUTURE_DIRECTORY

if TYPE_CHECKING:
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker
    from penstock.storage.log import Log
    from penstock.storage.log_directory import LogDirectory

log = logging.getLogger("penstock.server")


class LogMoves:
    """The moves of one broker, one at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None
        context = broker.store.context
        sync_soon = context.on_roll
        # A move syncs its copy, and then renames it: nobody else may be syncing it by its old name.
        context.on_roll = lambda rolled: None if _is_copy(rolled) else sync_soon(rolled)

    @property
    def busy(self) -> bool:
        """Whether a log is being moved."""
        return self._task is not None

    def request(self, partition: Partition, directory: LogDirectory) -> None:
        """Move a partition's log to `directory`; what was asked for it before is given up.

        OSError if not even an empty copy can be made there.
        """
        store = self._broker.store
        key = partition.log.topic_partition
        under_way = store.moves.get(key)
        if under_way is not None:
            if under_way.target is directory:
                return
            under_way.cancel()
        if store.directory_of(partition.log) is not directory:
            store.begin_move(key, directory)
            self.wake()

    def wake(self) -> None:
        """Carry out what there is to move; called again when there is more."""
        if self._task is None and self._broker.store.moves:
            self._task = asyncio.ensure_future(self._work())

    def stop(self) -> None:
        """Leave the rest to the next start."""
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        moves = self._broker.store.moves
        try:
            while moves:
                key, move = next(iter(moves.items()))
                try:
                    await self._carry_out(move)
                except CorruptBatch as problem:
                    log.error("%s stays where it is, for it cannot be copied: %s", key, problem)
                if moves.get(key) is move:
                    move.cancel()
        finally:
            self._task = None

    async def _carry_out(self, move: LogMove) -> None:
        broker = self._broker
        if await carry_out(move, broker.workers, broker.clock.now, self._switch):
            partition = broker.hosted.get(move.copy.topic_partition)
            if partition is not None:
                await self._tell_controller(partition, move.target)

    def _switch(self, old: Log, new: Log) -> None:
        """Called when `new` holds all that `old` does, before anything else is appended."""
        # A retry may be under way of a batch that is no longer in either of them.
        new.producers = old.producers
        # What was durable in the old place must be so in the new one before that is deleted, the
        # last few batches included. It blocks, but only for these, and once for a move.
        try:
            new.sync()
        except OSError as error:
            self._broker.store.sync_failed(new, error)
            raise
        partition = self._broker.hosted.get(old.topic_partition)
        if partition is not None:
            partition.use_log(new)

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


def _is_copy(rolled: Log) -> bool:
    return rolled.directory.endswith(FUTURE_DIRECTORY)
