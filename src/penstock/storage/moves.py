"""Moving a log to another directory of the same node, while it is in use.

A copy grows beside the log, in a directory named `topic-partition.unique-future`, as Kafka names
it. When it has caught up it is made durable, catches up once more, and takes the log's place
between two requests. A restart finds the copy and goes on with it.

The copy gets its final name, durably, before the old log loses its own: a crash in between leaves
two whole logs, of which the store keeps the longer one. The other order could leave none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.model.invariants import invariant
from penstock.platform.workers import Workers
from penstock.storage.log import Log
from penstock.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

STEP_BYTES = 1 << 20


class LogMove:
    """One log on its way to another directory. `store.begin_move` makes it."""

    __slots__ = ("_truncations", "cancelled", "copy", "source", "store", "target")

    def __init__(self, store: LogStore, source: Log, copy: Log, target: LogDirectory) -> None:
        self.store = store
        self.source = source
        self.copy = copy
        self.target = target
        self.cancelled = False
        self._truncations = source.truncations

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind, as DescribeLogDirs reports it."""
        return max(self.source.end - self.copy.end, 0)

    def step(self, now: int) -> bool:
        """Copy a piece; True when the copy has caught up."""
        source, copy = self.source, self.copy
        # What was cut may have been written anew, differently, where the copy already was.
        rewritten = source.truncations != self._truncations or copy.end > source.end
        if rewritten or copy.end < source.start:
            self._truncations = source.truncations
            copy.truncate_all(first_offset(source), now)
        if copy.end < source.end:
            data = source.read_bytes(max(copy.end, source.start), STEP_BYTES)
            if data:
                copy.append_batches(data, now)
            else:
                copy.skip_to(source.end, now)
        return copy.end >= source.end

    def finish(self, now: int) -> Log:
        """Put the copy in the log's place and answer it. Everything happens within this call.

        The old log's files stay until `store.retire`, which is for when the new name is durable.
        """
        while not self.step(now):
            pass
        source, copy = self.source, self.copy
        invariant(not self.cancelled, f"the move of {source} was cancelled")
        copy.config = source.config
        copy.advance_start(max(source.start, copy.start))
        copy.high_watermark = source.high_watermark
        self.store.forget_namesake(self.target, source.topic_partition)
        copy.rename_directory(f"{self.target.path}/{source.topic_partition}")
        self.store.replace(source, copy)
        return copy

    def cancel(self) -> None:
        """Give the copy up."""
        if not self.cancelled:
            self.cancelled = True
            self.store.discard_copy(self)


def first_offset(source: Log) -> int:
    """Where a copy has to begin: with the batch that holds the start, which may lie within it."""
    for head, _ in source.batches(source.start):
        return min(head.base_offset, source.start)
    return source.start


@contextmanager
def _syncing(move: LogMove) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        move.store.sync_failed(move.copy, error)
        raise


async def carry_out(
    move: LogMove, workers: Workers, now: Callable[[], int], use: Callable[[Log, Log], None]
) -> bool:
    """Copy, sync, and swap; `use` is told (old, new) at the moment of the swap. False if given up.

    The copy is synced before it takes over: what was durable in the old place must not become
    less so by moving.
    """
    try:
        while not move.cancelled and not move.step(now()):
            await asyncio.sleep(0)
        with _syncing(move):
            await workers.submit(move.copy.sync)
        if move.cancelled:
            return False
        use(move.source, move.finish(now()))
        with _syncing(move):
            # Here, and not in a worker: a stop in between would leave two logs, closed cleanly,
            # of which the next start may take the one that nobody closed.
            move.store.disk.sync_directory(move.target.path)
        move.store.retire(move.source)
    except OSError as error:
        logger.error("the move of %s to %s failed: %s", move.source, move.target.path, error)
        move.cancel()
        return False
    logger.info("moved %s to %s", move.copy, move.target.path)
    return True
