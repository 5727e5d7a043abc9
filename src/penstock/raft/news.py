"""Waiting for something to happen to the log."""

from __future__ import annotations

import asyncio

WAITING_MAX = 10_000
"""Members that may wait at once; more are answered with what there is."""


class News:
    """Many wait, one tells them all."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        """Something happened."""
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def wait(self, wait_ms: int) -> bool:
        """Until something happens, or time is up; False if too many wait already."""
        if len(self._waiting) >= WAITING_MAX:
            return False
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        try:
            await asyncio.wait([news], timeout=wait_ms / 1000)
        finally:
            self._waiting.discard(news)
        return True
