"""Time as an argument: machines never ask what time it is."""

from __future__ import annotations

import time
from typing import Protocol

from penstock.model.ids import Millis


class Clock(Protocol):
    """Where a driver learns the time that it passes on."""

    def now(self) -> Millis:
        """Wall-clock milliseconds since 1970; may jump."""

    def monotonic(self) -> Millis:
        """Milliseconds that only grow, for timeouts."""


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    def now(self) -> Millis:
        return time.time_ns() // 1_000_000  # type: ignore[return-value] # `Millis()` is a call

    def monotonic(self) -> Millis:
        return Millis(time.monotonic_ns() // 1_000_000)
