"""Group commit: everyone who waits for the same log shares the next fdatasync.

While one sync runs, whoever arrives waits for the one after it, which then covers them all. So
the slower the disk, the larger the groups, and the throughput stays.

A quick disk makes the groups small, and then the hand-over to another thread and back is what
costs. So a sync begins when the event loop has taken all that arrived together, logs whose syncs
are quick go to one worker one after the other, and few wait for such an errand to come back before
the next one begins. Where syncs are slow, each log has a worker of its own, at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from penstock.platform.workers import Workers
from penstock.storage.log import Log

ERRAND_SECONDS = 0.002
"""How long one worker may take for several logs, and how long others wait for it."""


class GroupCommit:
    """Syncs logs in workers. `on_failure` takes the log's directory offline.

    A failed fsync is never retried: the kernel may have dropped the pages it could not write, and
    a second call would report success about data that is gone.
    """

    __slots__ = (
        "_asked",
        "_due",
        "_on_failure",
        "_patience",
        "_running",
        "_sync_seconds",
        "_waiting",
        "_workers",
    )

    def __init__(self, workers: Workers, on_failure: Callable[[Log, OSError], None]) -> None:
        self._workers = workers
        self._on_failure = on_failure
        self._due: dict[Log, None] = {}
        self._asked = False  # whether the end of the loop's turn looks at what is due
        self._patience: asyncio.TimerHandle | None = None  # ends the wait for an errand
        self._running: dict[Log, asyncio.Future[list[int | OSError]]] = {}
        self._waiting: dict[Log, list[tuple[int, asyncio.Future[None]]]] = {}
        self._sync_seconds = ERRAND_SECONDS  # what the sync of a log took lately

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
        if log not in self._running and log not in self._due:
            self._due[log] = None
            self._look_soon()

    async def drain(self) -> None:
        """Wait until nothing is being synced: before the logs are closed."""
        while self._running or self._due:
            if self._running:
                await asyncio.wait(set(self._running.values()))
            await asyncio.sleep(0)

    def _look_soon(self) -> None:
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Begin what is due: all of it if no errand is under way, else only whole errands."""
        self._asked = False
        at_once = max(1, int(ERRAND_SECONDS / self._sync_seconds))
        count = len(self._due)
        if self._running:
            count -= count % at_once
        self._begin(count, at_once)
        if self._due and self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(ERRAND_SECONDS, self._lose_patience)

    def _lose_patience(self) -> None:
        """An errand takes longer than they use to: its disk may hang, and others' may not."""
        self._patience = None
        self._begin(len(self._due), 1)

    def _begin(self, count: int, at_once: int) -> None:
        logs = list(self._due)
        self._due = dict.fromkeys(logs[count:])
        began = asyncio.get_running_loop().time()
        for first in range(0, count, at_once):
            together = logs[first : min(first + at_once, count)]
            running = self._workers.submit(partial(_sync_each, together))
            for log in together:
                self._running[log] = running
            running.add_done_callback(partial(self._finish, together, began))

    def _finish(
        self, logs: Sequence[Log], began: float, errand: asyncio.Future[list[int | OSError]]
    ) -> None:
        for log in logs:
            del self._running[log]
        if self._due:
            self._look_soon()
        problem: BaseException | None
        if errand.cancelled():
            problem = OSError("the node is stopping")
        else:
            problem = errand.exception()
        if problem is not None:
            for log in logs:
                self._fail(log, problem)
            return
        seconds = (asyncio.get_running_loop().time() - began) / len(logs)
        # Never 0, which clocks may show; and slowly, for one slow sync says little.
        self._sync_seconds = max(0.9 * self._sync_seconds + 0.1 * seconds, 1e-5)
        for log, outcome in zip(logs, errand.result(), strict=True):
            if isinstance(outcome, OSError):
                self._fail(log, outcome)
                self._on_failure(log, outcome)
            else:
                self._tell(log, outcome)

    def _fail(self, log: Log, problem: BaseException) -> None:
        for _, done in self._waiting.pop(log, []):
            if not done.done():
                done.set_exception(problem)

    def _tell(self, log: Log, end: int) -> None:
        """Everything below `end` is durable."""
        waiting = self._waiting.pop(log, [])
        later = [(offset, done) for offset, done in waiting if offset > end]
        for offset, done in waiting:
            if offset <= end and not done.done():
                done.set_result(None)
        if later:
            self._waiting[log] = later
            self.sync_soon(log)


def _sync_each(logs: Sequence[Log]) -> list[int | OSError]:
    """What a worker does: where each log's durable part ends now, or why nobody knows."""
    outcomes: list[int | OSError] = []
    for log in logs:
        try:
            outcomes.append(log.sync())
        except OSError as problem:
            outcomes.append(problem)
    return outcomes
