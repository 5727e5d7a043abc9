"""What a node does by the clock: checkpoints, retention, flushing, cleaning up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from penstock.server.broker import Broker
from penstock.storage.compaction import Compactor
from penstock.storage.flush import GroupCommit
from penstock.storage.log_directory import LogDirectory

log = logging.getLogger("penstock.app")

TRASH_MS = 1_000
FLUSH_MS = 1_000
TRIM_MS = 30_000
"""A log that is quiet for so long has no use for blocks of its own."""
PAUSE_EVERY = 200
"""Logs that a pass looks at before it lets requests in."""


class Maintenance:
    """Periodic passes over the store, each in a task of its own."""

    def __init__(self, broker: Broker, commits: GroupCommit) -> None:
        self._broker = broker
        self._store = broker.store
        self._commits = commits
        self._tasks: list[asyncio.Task[None]] = []
        config = broker.config
        self._compactor = Compactor(
            self._store.disk,
            broker.workers,
            chance=broker.chance,
            memory_max=config.get_int("log.cleaner.dedupe.buffer.size"),
            bytes_per_second_max=config.get_float("log.cleaner.io.max.bytes.per.second"),
        )

        broker.on_deleted = self._compactor.forget

    def start(self) -> None:
        """Begin all passes."""
        config = self._broker.config
        for period_ms, act in (
            (config.get_int("log.retention.check.interval.ms"), self._retain),
            (config.get_int("log.flush.offset.checkpoint.interval.ms"), self._checkpoint),
            (config.get_int("replica.high.watermark.checkpoint.interval.ms"), self._watermarks),
            (config.get_int("producer.id.expiration.check.interval.ms"), self._expire),
            (config.get_int("log.cleaner.backoff.ms"), self._compact),
            (FLUSH_MS, self._flush),
            (TRIM_MS, self._trim),
            (TRASH_MS, self._empty_trash),
        ):
            self._tasks.append(asyncio.create_task(self._repeat(period_ms, act)))

    async def stop(self) -> None:
        """End all passes."""
        self._compactor.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, period_ms: int, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                await act()
            except Exception:
                # One pass that fails must not end all later ones; what failed is said.
                log.exception("%s failed", act.__name__.strip("_"))

    async def _retain(self) -> None:
        await self._broker.delays.make_way()
        for count, _ in enumerate(self._store.retention_pass(self._broker.clock.now())):
            if count % PAUSE_EVERY == 0:
                await asyncio.sleep(0)

    async def _checkpoint(self) -> None:
        for each in list(self._store.logs.values()):
            try:
                each.write_indexes()
            except OSError as problem:
                self._store.context.on_fault(each, problem)  # the others' checkpoints go on
        await self._write(self._store.checkpoint_work())

    async def _watermarks(self) -> None:
        await self._write(self._store.high_watermark_work())

    async def _write(self, work: list[tuple[LogDirectory, Callable[[], None]]]) -> None:
        for directory, write in work:
            try:
                await self._broker.workers.submit(write)
            except OSError as problem:
                self._store.checkpoint_failed(directory, problem)

    async def _expire(self) -> None:
        self._store.expire_producers(self._broker.clock.now())

    async def _compact(self) -> None:
        while await self._compactor.run_once(
            list(self._store.logs.values()), self._broker.clock.now()
        ):
            await asyncio.sleep(0)

    async def _flush(self) -> None:
        for each in self._store.flush_due(self._broker.clock.now()):
            self._commits.sync_soon(each)

    async def _trim(self) -> None:
        self._store.trim_quiet()

    async def _empty_trash(self) -> None:
        remove = self._store.take_trash(self._broker.clock.now())
        if remove is not None:
            await self._broker.workers.submit(remove)
