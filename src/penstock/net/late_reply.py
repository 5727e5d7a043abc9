"""A reply that comes later, and is told on the spot.

A future tells those who wait in the loop's next turn, and each turn asks the kernel once more. A
batch that has to be on three nodes passes through four loops: what waits for it there hears of it
at once, so that a node's answer leaves before the node goes on with anything else.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

log = logging.getLogger("penstock.net")

Outcome = TypeVar("Outcome")
Further = TypeVar("Further")
Told = Any  # a callback takes the reply itself, as a future's does


class LateReply(Generic[Outcome]):
    """What a future is, but for the turn of the loop between its end and those who wait for it."""

    __slots__ = ("_cancelled", "_done", "_outcome", "_problem", "_waiting")

    def __init__(self) -> None:
        self._done = False
        self._cancelled = False
        self._outcome: Outcome | None = None
        self._problem: BaseException | None = None
        self._waiting: list[Callable[[Told], object]] = []

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> bool:
        """Nobody wants it any more; False if it came before."""
        if self._done:
            return False
        self._cancelled = True
        self._end()
        return True

    def set_result(self, outcome: Outcome) -> None:
        if self._done:
            raise asyncio.InvalidStateError("the reply is there already")
        self._outcome = outcome
        self._end()

    def set_exception(self, problem: BaseException) -> None:
        if self._done:
            raise asyncio.InvalidStateError("the reply is there already")
        self._problem = problem
        self._end()

    def _end(self) -> None:
        self._done = True
        waiting, self._waiting = self._waiting, []
        for tell in waiting:
            self._tell(tell)

    def _tell(self, callback: Callable[[Told], object]) -> None:
        try:
            callback(self)
        except Exception:
            # Whoever made the reply is in the middle of something, and did nothing wrong.
            log.exception("what waited for a reply failed")

    def add_done_callback(self, callback: Callable[[Told], object]) -> None:
        """Have `callback(self)` called when it is there: now, if it is."""
        if self._done:
            self._tell(callback)
        else:
            self._waiting.append(callback)

    def exception(self) -> BaseException | None:
        if self._cancelled:
            raise asyncio.CancelledError
        if not self._done:
            raise asyncio.InvalidStateError("the reply is not there yet")
        return self._problem

    def result(self) -> Outcome:
        problem = self.exception()
        if problem is not None:
            raise problem
        return self._outcome  # type: ignore[return-value]

    def then(self, finish: Callable[[Outcome], Further]) -> LateReply[Further]:
        """What `finish` makes of it, as soon as it is there. Who gives that up gives up this."""
        further: LateReply[Further] = LateReply()
        further.add_done_callback(self._given_up)
        self.add_done_callback(partial(_finish, further, finish))
        return further

    def _given_up(self, further: LateReply[Any]) -> None:
        if further._cancelled:
            self.cancel()

    def __await__(self) -> Generator[Any, None, Outcome]:
        if not self._done:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(partial(_wake, woken))
            try:
                yield from woken
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()


def _wake(who: asyncio.Future[None], _: Told) -> None:
    if not who.done():
        who.set_result(None)


def _finish(
    further: LateReply[Further], finish: Callable[[Outcome], Further], done: LateReply[Outcome]
) -> None:
    if further.done():
        return  # given up
    if done.cancelled():
        further.cancel()
        return
    try:
        made = finish(done.result())
    except Exception as problem:  # noqa: BLE001 - told to who waits for what should have been made
        further.set_exception(problem)
    else:
        further.set_result(made)
