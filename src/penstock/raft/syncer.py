"""Making the log durable in a worker, one sync at a time: what comes meanwhile shares the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from penstock.platform.workers import Workers
    from penstock.storage.log import Log


class Syncer:
    """Syncs one log as often as it is asked to, and no oftener than it must."""

    def __init__(
        self,
        log: Log,
        workers: Workers,
        on_synced: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`on_synced` is told up to where the log is durable."""
        self._log = log
        self._workers = workers
        self._on_synced = on_synced
        self._on_failure = on_failure
        self._failed = False
        self.under_way: asyncio.Future[int] | None = None

    def sync(self) -> None:
        """Make durable what the log holds by now: at once, or after the sync that is under way."""
        if self.under_way is None and not self._failed:
            cuts = self._log.truncations
            self.under_way = self._workers.submit(self._log.sync)
            self.under_way.add_done_callback(lambda done: self._done(done, cuts))

    def _done(self, done: asyncio.Future[int], cuts: int) -> None:
        self.under_way = None
        failure = done.exception()
        if failure is not None:
            # A sync that failed may have dropped the pages: trying again would tell lies.
            self._failed = True
            self._on_failure(failure)
            return
        end = done.result()
        if cuts != self._log.truncations:
            self.sync()  # what it made durable may be gone, and other records in its place
            return
        if end < self._log.end:
            self.sync()
        self._on_synced(end)
