"""Requests that wait in a coordinator for their replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.errors import ErrorCode
    from penstock.protocol.message import Part


class OpenTicket:
    """A request's place in the queue: answered or refused once, whichever comes first."""

    __slots__ = ("_future", "_refuse", "response")

    def __init__(self, refuse: Callable[[ErrorCode], Part]) -> None:
        self._refuse = refuse
        self._future: asyncio.Future[Part] | None = None
        self.response: Part | None = None

    def answer(self, response: Part) -> None:
        """Let the reply go."""
        if self.response is not None:
            return
        self.response = response
        if self._future is not None and not self._future.done():
            self._future.set_result(response)

    def refuse(self, error: ErrorCode) -> None:
        """Reply in the request's own form that it failed."""
        if self.response is None:
            self.answer(self._refuse(error))

    def wait(self, forget: Callable[[OpenTicket], None]) -> asyncio.Future[Part]:
        """The reply to come; `forget` is told when nobody waits for it any more."""
        future = self._future = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: forget(self))
        return future
