"""What this node has to say to other brokers, gathered by broker.

One request at a time goes to each; what comes up meanwhile goes together with the next. So the
busier a broker is, the more a request carries, and nobody waits for a request to fill up.

A broker that the controller takes for dead is hung up on: whoever waits for its answer hears at
once that there is none, and asks whoever leads now.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from penstock.model.errors import ErrorCode
from penstock.net.peer import PeerLost

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.message import Message
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")

Item = TypeVar("Item")

ITEMS_MAX = 100_000
"""What may wait for one broker; more has no answer, as if the broker had not been reached."""

GRACE_SECONDS = 2.0
"""By how much longer than the other broker may take its answer is waited for."""


class Trade(Protocol[Item]):
    """How items become a request, and an answer the items' own."""

    def compose(self, items: list[Item]) -> tuple[Message, list[Item]]:
        """A request for some of the items, the first among them, and which these are."""

    def settle(self, items: list[Item], answer: Any | None) -> None:
        """The answer to these, or None if there is none: nobody knows what came of them."""


class Rounds(Generic[Item]):
    """Goes to and fro between this broker and others, for one trade."""

    def __init__(self, broker: Broker, purpose: str, trade: Trade[Item]) -> None:
        self._broker = broker
        self._purpose = purpose
        self._trade = trade
        self._seconds_max = broker.config.get_int("request.timeout.ms") / 1000 + GRACE_SECONDS
        self._waiting: dict[int, list[Item]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._closed = False

    def add(self, node_id: int, item: Item) -> None:
        """Have something taken to a broker, with the next request."""
        waiting = self._waiting.setdefault(node_id, [])
        if self._closed or len(waiting) >= ITEMS_MAX:
            self._trade.settle([item], None)
            return
        waiting.append(item)
        if node_id not in self._tasks:
            # It begins with the event loop's next turn: what this turn has to say goes along.
            self._tasks[node_id] = self._broker.loop.create_task(self._run(node_id))

    def on_image(self, image: MetadataImage) -> None:
        """Brokers may be gone."""
        for node_id in list(self._tasks):
            known = image.cluster.brokers.get(node_id)
            if known is None or known.fenced:
                self._broker.neighbours.hang_up(node_id, self._purpose)

    def close(self) -> None:
        """The node stops: nobody is told anything any more."""
        self._closed = True
        for task in list(self._tasks.values()):
            task.cancel()

    async def _run(self, node_id: int) -> None:
        try:
            while waiting := self._waiting[node_id]:
                request, taken = self._trade.compose(waiting)
                gone = {id(item) for item in taken}
                self._waiting[node_id] = [item for item in waiting if id(item) not in gone]
                self._trade.settle(taken, await self._ask(node_id, request))
        finally:
            del self._waiting[node_id], self._tasks[node_id]

    async def _ask(self, node_id: int, request: Message) -> Any | None:
        neighbours = self._broker.neighbours
        try:
            return await neighbours.ask(node_id, request, self._seconds_max, self._purpose)
        except PeerLost as problem:
            log.info("%s to broker %d: %s", self._purpose, node_id, problem)
            return None


def error_of(code: int) -> ErrorCode:
    """An error that another node told; it may know more of them than we do."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
