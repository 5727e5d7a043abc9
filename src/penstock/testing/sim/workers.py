"""Workers of a simulated process: one at a time, and not at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

Outcome = TypeVar("Outcome")


class SimulatedWorkers:
    """Does the work after a virtual moment, and tells of it: what was asked meanwhile is seen.

    `slow_ms` is added where a disk is slow. A process that dies in between never does it.
    """

    def __init__(self, dice: random.Random) -> None:
        self.slow_ms = 0
        self._dice = dice

    def submit(self, work: Callable[[], Outcome]) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Outcome] = loop.create_future()
        wait = (self._dice.random() * 2 + self.slow_ms) / 1000
        loop.call_later(wait, _do, work, done)
        return done

    def close(self) -> None:
        """Nothing runs on by itself."""


def _do(work: Callable[[], Any], done: asyncio.Future[Any]) -> None:
    try:
        outcome = work()
    except Exception as problem:  # noqa: BLE001 - handed to whoever awaits the future
        if not done.cancelled():
            done.set_exception(problem)
    else:
        if not done.cancelled():
            done.set_result(outcome)
