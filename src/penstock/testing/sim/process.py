"""What belongs to one process of a simulated machine, so that it can be paused and killed.

All processes share one event loop. Whatever a process starts (tasks, timers, callbacks) carries
its context along, and the loop asks the context whose turn it is: what belongs to a process that
is paused waits, and what belongs to one that is dead never runs again, as after `kill -9`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any


class Process:
    """One life of a node or a client."""

    __slots__ = ("alive", "context", "held", "host", "paused", "tasks")

    def __init__(self, host: str) -> None:
        self.host = host
        self.alive = True
        self.paused = False
        self.held: deque[asyncio.Handle] = deque()
        """What would have run since the pause began, in its order."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as part of this process."""
        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] = self.context.run(loop.create_task, work)
        # Kept to the end of the world: what is half done when a process dies stays half done, and
        # collecting it would run its `finally`.
        self.tasks.append(task)
        task.add_done_callback(_tell_failure)
        return task

    def run(self, act: Callable[..., Any], *args: Any) -> Any:
        """Do something as this process would, now."""
        return self.context.run(act, *args)

    def kill(self) -> None:
        """From here on nothing of it runs."""
        self.alive = False
        self.held.clear()


def _tell_failure(task: asyncio.Task[Any]) -> None:
    """What a process does must not fail unheard."""
    if not task.cancelled() and task.exception() is not None:
        told = {"message": "a task failed", "exception": task.exception()}
        task.get_loop().call_exception_handler(told)


CURRENT: ContextVar[Process | None] = ContextVar("the simulated process", default=None)
