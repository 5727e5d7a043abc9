"""What a request waits for that says something about records of several partitions."""

from __future__ import annotations

import asyncio

from penstock.model.errors import ErrorCode


class Acknowledgements:
    """Those of one request that wait for what they say to be written down."""

    __slots__ = ("_left", "done", "errors")

    def __init__(self) -> None:
        self.errors: dict[tuple[bytes, int], ErrorCode] = {}
        """By partition; of those that are settled."""
        self._left = 0
        self.done: asyncio.Future[None] | None = None

    @property
    def settled(self) -> bool:
        return self._left == 0

    def expect(self) -> None:
        """One partition's answer may come later."""
        self._left += 1

    def settle(self, key: tuple[bytes, int], error: ErrorCode) -> None:
        """One partition's answer came."""
        self.errors[key] = error
        self._left -= 1
        if self._left == 0 and self.done is not None and not self.done.done():
            self.done.set_result(None)

    async def wait(self) -> None:
        """Until all are settled."""
        if self._left:
            self.done = asyncio.get_running_loop().create_future()
            await self.done
