"""One turn of the event loop: how long its connections may be served before all others get theirs.

A client that sends without end would be served without end. So in each turn, requests beyond the
first of a connection are served only for a while; what is left waits for the next turn. However
many such clients there are, who asks for one thing waits for that while, and for one request of
each of them.
"""

from __future__ import annotations

import asyncio

SECONDS_MAX = 0.002
"""Enough for a hundred small requests: to stop and go on costs as much as one."""


class Turns:
    """The turns of one listener."""

    __slots__ = ("_loop", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = 0.0

    def until(self, now: float) -> float:
        """When, by the loop's clock, this turn's time is used up."""
        if not self._until:
            self._until = now + SECONDS_MAX
            self._loop.call_soon(self._end)  # the first thing in the next turn
        return self._until

    def _end(self) -> None:
        self._until = 0.0
