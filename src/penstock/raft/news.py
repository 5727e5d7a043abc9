"""Waiting for something to happen to the log."""

from __future__ import annotations

import asyncio

WAITING_MAX = 10_000
"""Members that may wait at once; more are answered with what there is."""


class News:
    """Many wait, one tells them all."""

    def __init__(self) -> None:
        # In the order in which they came: a simulated run is to be the same each time.
        self._waiting: dict[asyncio.Future[None], None] = {}

    def tell(self) -> None:
        """Something happened."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def wait(self, wait_ms: int) -> bool:
        """Until something happens, or time is up; False if too many wait already."""
        if len(self._waiting) >= WAITING_MAX:
            return False
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[news] = None
        try:
            await asyncio.wait([news], timeout=wait_ms / 1000)
        finally:
            self._waiting.pop(news, None)
        return True
