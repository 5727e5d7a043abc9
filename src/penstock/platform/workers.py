"""Worker threads for what blocks: fsync, cold reads, compaction, decompression.

The event loop submits a plain function and awaits, or is called back with, its outcome. Threads
start when there is work for them, so a node that never blocks has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

Outcome = TypeVar("Outcome")

WORKERS_MAX = 8  # they wait for disks, which is why they may outnumber the cores


class Workers(Protocol):
    """Where blocking work goes."""

    def submit(self, work: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
        """Run `work` elsewhere; the future is done on the event loop that submitted."""

    def close(self) -> None:
        """Wait for what was submitted, then end."""


class ThreadWorkers:
    """A bounded pool of threads."""

    __slots__ = ("_pool",)

    def __init__(self, count_max: int = WORKERS_MAX) -> None:
        self._pool = ThreadPoolExecutor(count_max, thread_name_prefix="penstock-worker")

    def submit(self, work: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
        running: Future[Outcome] = self._pool.submit(work)
        return asyncio.wrap_future(running)

    def close(self) -> None:
        self._pool.shutdown(wait=True)


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
