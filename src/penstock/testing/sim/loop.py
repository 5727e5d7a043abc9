"""An event loop whose time passes only when nobody has anything to do.

A second of waiting costs nothing, and a run with the same seed is the same run: no thread, no
socket and no clock of the machine has a say in it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.model.ids import Millis

EPOCH_MS = 1_700_000_000_000
"""What the wall clock shows when a simulation begins."""

_Result = TypeVar("_Result")


class Stuck(RuntimeError):
    """Everybody waits for somebody else, and no timer will ever ring."""


class _Selector(selectors.SelectSelector):
    """Instead of waiting for the kernel, lets time pass."""

    loop: SimulatedLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("nothing is due, and everything waits")
        if timeout > 0:
            self.loop.now += timeout
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Virtual time, from 0 on, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.now


class SimulatedClock:
    """The loop's time as nodes read it, possibly wrong by `skew_ms`."""

    def __init__(self, loop: SimulatedLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now(self) -> Millis:
        return Millis(EPOCH_MS + self.skew_ms + self.monotonic())

    def monotonic(self) -> Millis:
        # Rounded: a timer that rings at its time must find that it is due.
        return Millis(round(self._loop.now * 1000))


def simulate(main: Coroutine[Any, Any, _Result], loop: SimulatedLoop) -> _Result:
    """Run a coroutine to its end in virtual time."""
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
