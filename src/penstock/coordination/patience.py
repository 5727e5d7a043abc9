"""Replies that wait until their records are committed, and not for ever.

A partition whose followers are gone commits nothing until the controller has said so. A client
that waited all that time would look for another coordinator only after its own patience, and hold
its connection meanwhile. It is told to come again instead; the records stay, and count when they
are committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from penstock.model.ids import Millis

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.coordination.effects import Effects
    from penstock.platform.clock import Clock


class Patience:
    """Steps whose replies wait, the oldest first; all have the same time."""

    def __init__(self, clock: Clock, wait_ms: int, give_up: Callable[[Effects], None]) -> None:
        self._clock = clock
        self._wait_ms = wait_ms
        self._give_up = give_up
        self._waiting: deque[tuple[Millis, Effects]] = deque()
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, out: Effects) -> None:
        """Give up on a step's replies when they have waited too long."""
        self._waiting.append((Millis(self._clock.monotonic() + self._wait_ms), out))
        if self._handle is None:
            self._wake_in(self._wait_ms)

    def forget_answered(self) -> None:
        """Some were answered: they are mostly the oldest."""
        waiting = self._waiting
        while waiting and not waiting[0][1].replies:
            waiting.popleft()

    def close(self) -> None:
        """Nobody waits any longer."""
        self._waiting.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake_in(self, wait_ms: int) -> None:
        self._handle = asyncio.get_running_loop().call_later(wait_ms / 1000, self._look)

    def _look(self) -> None:
        self._handle = None
        now = self._clock.monotonic()
        waiting = self._waiting
        while waiting and (waiting[0][0] <= now or not waiting[0][1].replies):
            self._give_up(waiting.popleft()[1])
        if waiting:
            self._wake_in(max(1, waiting[0][0] - now))
