"""Those who wait until something is committed, in the order of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.raft.messages import ChangeReply


class Waiters:
    """Futures by the end of the log that each of them waits for."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def add(self, end: int) -> asyncio.Future[None]:
        """Done when everything below `end` is committed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((end, future))
        return future

    def release(self, high_watermark: int) -> None:
        """Everything below is committed."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)

    def give_up(self, problem: Exception) -> None:
        """Tell all of them that they wait in vain, or that nobody knows."""
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(problem)


class Tickets:
    """Those who wait for a change of the voters."""

    def __init__(self) -> None:
        self._number = 0
        self._waiting: dict[int, asyncio.Future[ChangeReply]] = {}

    def take(self) -> tuple[int, asyncio.Future[ChangeReply]]:
        """A number by which the machine speaks of the one who asked, and what he waits for."""
        self._number += 1
        future: asyncio.Future[ChangeReply] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = future
        return self._number, future

    def conclude(self, ticket: int, reply: ChangeReply) -> None:
        """Somebody's answer is there."""
        future = self._waiting.pop(ticket, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def forget(self, ticket: int) -> None:
        """Somebody was answered at once."""
        self._waiting.pop(ticket, None)

    def give_up(self, problem: Exception) -> None:
        """Nobody will be answered any more."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(problem)
