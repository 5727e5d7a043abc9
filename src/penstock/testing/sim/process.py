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

    __slots__ = ("alive", "context", "held", "host", "paused", "still", "tasks")

    def __init__(self, host: str) -> None:
        self.host = host
        self.alive = True
        self.paused = False
        self.still = False
        """Whether nothing of it runs, for a while or for good."""
        self.held: deque[asyncio.Handle] = deque()
        """What would have run since then, in its order. That of the dead is kept as well: if it
        was collected, what is half done would be ended in an orderly way, by `finally`."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as part of this process."""
        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] = self.context.run(loop.create_task, work)
        self.tasks.append(task)
        task.add_done_callback(_tell_failure)
        return task

    @property
    def done(self) -> bool:
        """Whether all that it was given to do is done."""
        return all(task.done() for task in self.tasks)

    def run(self, act: Callable[..., Any], *args: Any) -> Any:
        """Do something as this process would, now."""
        return self.context.run(act, *args)

    def pause(self) -> None:
        """It gets no time until the loop resumes it."""
        self.paused = self.still = True

    def kill(self) -> None:
        """From here on nothing of it runs."""
        self.alive = False
        self.still = True


def _tell_failure(task: asyncio.Task[Any]) -> None:
    """What a process does must not fail unheard."""
    if not task.cancelled() and task.exception() is not None:
        told = {"message": "a task failed", "exception": task.exception()}
        task.get_loop().call_exception_handler(told)


CURRENT: ContextVar[Process | None] = ContextVar("the simulated process", default=None)
