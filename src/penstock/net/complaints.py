"""Log lines about clients that misbehave: as many as somebody reads, and then a number."""

from __future__ import annotations

import asyncio
import logging

LINES_PER_SECOND_MAX = 20
"""A flood of bad clients must not become a flood of lines, nor cost what writing them costs."""


class Complaints:
    """The lines of one listener."""

    def __init__(self, log: logging.Logger, loop: asyncio.AbstractEventLoop, listener: str) -> None:
        self._log = log
        self._loop = loop
        self._listener = listener
        self._second = 0
        self._lines = 0

    def tell(self, level: int, message: str, *words: object) -> None:
        """Say it, unless too much was said in this second."""
        second = int(self._loop.time())
        if second != self._second:
            self._count_the_rest()
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= LINES_PER_SECOND_MAX:
            self._log.log(level, message, *words)

    def refused(self, address: str, reason: str) -> None:
        """Somebody was turned away."""
        self.tell(logging.WARNING, "refused %s on %s: %s", address, self._listener, reason)

    def _count_the_rest(self) -> None:
        rest = self._lines - LINES_PER_SECOND_MAX
        if rest > 0:
            self._log.warning(
                "%d more connections on %s were refused or closed in a second",
                rest,
                self._listener,
            )
