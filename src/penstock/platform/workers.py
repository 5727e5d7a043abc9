"""Worker threads for what blocks: fsync, cold reads, compaction, decompression.

The event loop submits a plain function and awaits, or is called back with, its outcome. Threads
start when there is work for them, so a node that never blocks has none.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

Outcome = TypeVar("Outcome")

WORKERS_MAX = 16  # they wait for disks, which is why they may outnumber the cores


class Workers(Protocol):
    """Where blocking work goes."""

    def submit(self, work: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
        """Run `work` elsewhere; the future is done on the event loop that submitted."""

    def close(self) -> None:
        """Wait for what was submitted, then end."""


class ThreadWorkers:
    """A bounded pool of threads.

    Leaner than an executor: an fsync takes a tenth of a millisecond on a good disk, and handing it
    over through two kinds of futures costs as much. Outcomes that arrive close together share one
    wake-up of the event loop.
    """

    __slots__ = ("_closed", "_count_max", "_done", "_idle", "_loop", "_queue", "_threads", "_woken")

    def __init__(self, count_max: int = WORKERS_MAX) -> None:
        self._count_max = count_max
        self._queue: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None]
        self._queue = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads that wait for work, as far as the event loop knows
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = False
        self._closed = False

    def submit(self, work: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        self._loop = loop
        future: asyncio.Future[Outcome] = loop.create_future()
        if self._closed:
            future.set_exception(RuntimeError("the workers have ended"))
            return future
        if self._idle:
            self._idle -= 1
        elif len(self._threads) < self._count_max:
            thread = threading.Thread(
                target=self._work, name=f"penstock-worker-{len(self._threads)}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        self._queue.put((future, work))
        return future

    def _work(self) -> None:
        done, take = self._done, self._queue.get
        while (item := take()) is not None:
            future, work = item
            try:
                done.append((future, work(), None))
            except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the future
                done.append((future, None, error))
            if not self._woken:
                self._woken = True
                self._wake()

    def _wake(self) -> None:
        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            pass  # the loop has ended: nobody waits for the outcome any more

    def _settle(self) -> None:
        # The flag first: an outcome that comes after it wakes the loop again, at worst for nothing.
        self._woken = False
        done = self._done
        while done:
            future, outcome, error = done.popleft()
            self._idle = min(self._idle + 1, len(self._threads))
            if future.cancelled():
                continue
            if error is None:
                future.set_result(outcome)
            else:
                future.set_exception(error)

    def close(self) -> None:
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        if self._done and self._loop is not None and not self._loop.is_closed():
            self._settle()


class InlineWorkers:
    """Runs the work at once, on the caller's thread: for tests and simulations."""

    __slots__ = ()

    def submit(self, work: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits the future
            done.set_exception(error)
        return done

    def close(self) -> None:
        pass
