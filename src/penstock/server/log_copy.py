"""A copy of a log in another directory: it follows, and in the end it takes the log's place."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.model.invariants import invariant
from penstock.storage import checkpoints, names
from penstock.storage.log import Log
from penstock.storage.recovery import load_log
from penstock.storage.segment import Segment

if TYPE_CHECKING:
    from penstock.platform.workers import Workers
    from penstock.storage.log_directory import LogDirectory
    from penstock.storage.store import LogStore

log = logging.getLogger("penstock.server")

CHUNK_BYTES = 1024 * 1024


class LogCopy:
    """What is being copied, and where to. `future` is the copy, once it has begun."""

    __slots__ = ("_store", "directory", "future", "source")

    def __init__(self, store: LogStore, source: Log, directory: LogDirectory) -> None:
        self._store = store
        self.source = source
        self.directory = directory
        self.future: Log | None = None

    @property
    def lag(self) -> int:
        """Offsets that are still to be copied."""
        return self.source.end - (self.source.start if self.future is None else self.future.end)

    def begin(self) -> None:
        """Make the copy, empty, with its own name beside the logs of its directory."""
        store, source = self._store, self.source
        key = source.topic_partition
        name = names.marked_name(key, store.chance.uuid().hex(), names.FUTURE_DIRECTORY)
        path = f"{self.directory.path}/{name}"
        store.disk.mkdir(path)
        metadata = checkpoints.format_partition_metadata(source.topic_id)
        store.disk.write_at(f"{path}/{names.PARTITION_METADATA}", metadata.encode(), 0)
        # The log may start inside a batch, which is copied whole.
        head = next((head for head, _ in source.batches(source.start)), None)
        first = source.end if head is None else head.base_offset
        segment = Segment.create(store.disk, path, first, store.clock.now())
        self.future = Log(
            store.context,
            key,
            source.topic_id,
            path,
            source.config,
            [segment],
            start=first,
            end=first,
            recovery_point=first,
        )

    async def follow(self, workers: Workers) -> int:
        """Copy what is there now, and make it durable; answers how many bytes came meanwhile."""
        future = self._begun()
        end = self.source.end
        while future.end < end:
            if future.end < self.source.start:  # retention was faster
                future.truncate_all(self.source.start, self._store.clock.now())
            found = self.source.read(future.end, CHUNK_BYTES, self.source.end)
            if found is None:
                break
            data = await workers.submit(found.read_waiting)
            if self.future is not future:
                return 0  # discarded meanwhile
            future.append_batches(data, self._store.clock.now())
        await workers.submit(future.sync)
        if self.future is not future or future.end < self.source.start:
            return 0
        rest = self.source.read(future.end, CHUNK_BYTES, self.source.end)
        return 0 if rest is None else rest.size

    def take_place(self) -> Log:
        """Become the log, and let the old one be deleted. Blocks for a sync of the last bytes.

        Nothing is appended in here, so whichever of the two a crash leaves under the log's name
        holds everything; and the new name is durable before the old one goes.
        """
        store, source, future = self._store, self.source, self._begun()
        now = store.clock.now()
        while future.end < source.end:
            rest = source.read(future.end, CHUNK_BYTES, source.end)
            if rest is None:
                break
            future.append_batches(rest.read(), now)
        future.settle()
        future.sync()
        future.abandon()
        key = source.topic_partition
        path = f"{self.directory.path}/{key}"
        store.disk.rename(future.directory, path)
        future.directory = path  # what `discard` would remove
        store.disk.sync_directory(self.directory.path)
        moved = load_log(
            store.context,
            key,
            source.topic_id,
            path,
            source.config,
            clean=True,
            recovery_point=future.end,
            start=source.start,
            now=now,
        )
        invariant(moved.end == source.end, f"the copy of {key} ends at {moved.end}: {source}")
        moved.high_watermark = source.high_watermark
        # A retry may be under way of a batch that retention has removed, or of an old timestamp.
        moved.producers = source.producers
        self.future = None
        try:
            store.delete(key)
        finally:  # if the old directory fails just now, the log is in safety
            store.logs[key] = moved
        return moved

    def discard(self) -> None:
        """Remove the copy, whatever there is of it."""
        future, self.future = self.future, None
        if future is not None:
            future.abandon()
            name = names.marked_name(
                future.topic_partition, self._store.chance.uuid().hex(), names.DELETE_DIRECTORY
            )
            gone = f"{self.directory.path}/{name}"
            try:
                self._store.disk.rename(future.directory, gone)
            except OSError as problem:
                log.warning("%s is left behind: %s", future.directory, problem)
            else:
                self._store.context.trash.add(0, [gone], [])

    def _begun(self) -> Log:
        assert self.future is not None, "begin comes first"
        return self.future
