"""Group commit: everyone who waits for the same log shares the next fdatasync.

While one sync runs, whoever arrives waits for the one after it, which then covers them all. So
the slower the disk, the larger the groups, and the throughput stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.platform.workers import Workers
from penstock.storage.log import Log


class GroupCommit:
    """Syncs logs in workers. `on_failure` takes the log's directory offline.

    A failed fsync is never retried: the kernel may have dropped the pages it could not write, and
    a second call would report success about data that is gone.
    """

    __slots__ = ("_on_failure", "_running", "_waiting", "_workers")

    def __init__(self, workers: Workers, on_failure: Callable[[Log, OSError], None]) -> None:
        self._workers = workers
        self._on_failure = on_failure
        self._running: dict[Log, asyncio.Future[int]] = {}
        self._waiting: dict[Log, list[tuple[int, asyncio.Future[None]]]] = {}

    def wait_synced(self, log: Log, offset: int) -> asyncio.Future[None]:
        """Done when everything below `offset` is durable; OSError if the disk failed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if log.recovery_point >= offset:
            done.set_result(None)
            return done
        self._waiting.setdefault(log, []).append((offset, done))
        self.sync_soon(log)
        return done

    def sync_soon(self, log: Log) -> None:
        """Sync without anybody waiting: after a roll, and for flush.ms."""
        if log not in self._running:
            running = self._running[log] = self._workers.submit(log.sync)
            running.add_done_callback(lambda done: self._finish(log, done))

    async def drain(self) -> None:
        """Wait until nothing is being synced: before the logs are closed."""
        while self._running:
            await asyncio.wait(list(self._running.values()))
            await asyncio.sleep(0)

    def _finish(self, log: Log, outcome: asyncio.Future[int]) -> None:
        del self._running[log]
        waiting = self._waiting.pop(log, [])
        if outcome.cancelled():
            error: BaseException | None = OSError("the node is stopping")
        else:
            error = outcome.exception()
        if error is not None:
            for _, done in waiting:
                if not done.done():
                    done.set_exception(error)
            if isinstance(error, OSError) and not outcome.cancelled():
                self._on_failure(log, error)
            return
        end = outcome.result()
        later = [(offset, done) for offset, done in waiting if offset > end]
        for offset, done in waiting:
            if offset <= end and not done.done():
                done.set_result(None)
        if later:
            self._waiting[log] = later
            self.sync_soon(log)
