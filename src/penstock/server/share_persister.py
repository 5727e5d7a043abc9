"""How a broker reaches share coordinators: here or on another broker, with patience and bounds.

What one key has to say is said in order: each request waits for the one before it, however often
that had to be repeated. To repeat is safe, because the coordinator keeps whichever is further.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.coordination.delivery.effects import Held
from penstock.coordination.keys import shard_of
from penstock.coordination.share.state import ShareKey, Summary, Told
from penstock.coordination.share.updating import Writing
from penstock.model.errors import ErrorCode
from penstock.server.internal_topics import SHARES_TOPIC
from penstock.server.share_persister_trade import (
    Delete,
    Initialize,
    Question,
    Read,
    ShareTrade,
    Summarize,
    Write,
)
from penstock.server.share_state import ask_here

if TYPE_CHECKING:
    from penstock.coordination.delivery.effects import StateBatch
    from penstock.metadata.image import MetadataImage
    from penstock.server.broker import Broker

__all__ = ["ShareKey", "SharePersister", "Summary"]

log = logging.getLogger("penstock.server")

PATIENCE_MS = 30_000
"""How long is tried again: another broker takes a lead over in less."""

RETRY_MS = 20
RETRY_MS_MAX = 1_000

_PASSES = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
"""What passes by itself."""


class SharePersister:
    """Asks and tells the coordinator of each key. Errors come back as codes, never as exceptions;
    what passes by itself (no coordinator yet, loading, moved) is tried again for a while."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._trade = ShareTrade(broker)
        self._last: dict[ShareKey, asyncio.Future[None]] = {}
        """The end of what each key has asked for so far."""

    async def initialize(self, key: ShareKey, state_epoch: int, start: int) -> ErrorCode:
        """Begin with a key at an offset; -1 leaves that to the leader that reads it first."""
        told: Told = await self._in_turn(key, Initialize(state_epoch, start))
        return told.error

    async def read(self, key: ShareKey, leader_epoch: int) -> Held | ErrorCode:
        """What the coordinator holds, for a leader that from now on is the only one to write."""
        told = await self._in_turn(key, Read(leader_epoch))
        return told if isinstance(told, Held) else told.error

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        """Have it kept what became of records."""
        said = Writing(state_epoch, leader_epoch, start, complete, batches)
        told: Told = await self._in_turn(key, Write(said))
        return told.error

    async def delete(self, key: ShareKey) -> ErrorCode:
        """Have a key forgotten."""
        told: Told = await self._in_turn(key, Delete())
        return told.error

    async def summary(self, key: ShareKey) -> Summary | ErrorCode:
        """How far a group has come; whoever only looks does not wait for those who write."""
        told = await self._ask(key, Summarize())
        return told if isinstance(told, Summary) else told.error

    def on_image(self, image: MetadataImage) -> None:
        """Brokers may be gone."""
        self._trade.on_image(image)

    def close(self) -> None:
        """The node stops."""
        self._trade.close()

    # -- one after the other ----------------------------------------------------------------------

    async def _in_turn(self, key: ShareKey, question: Question) -> Any:
        before = self._last.get(key)
        mine = self._last[key] = self._broker.loop.create_future()
        try:
            if before is not None:
                await asyncio.shield(before)
            return await self._ask(key, question)
        finally:
            if before is None or before.done():
                mine.set_result(None)
            else:  # given up while others were at it: the next one waits for them all the same
                before.add_done_callback(lambda _: mine.set_result(None))
            if self._last[key] is mine:
                self._settle(key, mine)

    def _settle(self, key: ShareKey, mine: asyncio.Future[None]) -> None:
        """Forget a key that has nothing more to say."""
        if mine.done():
            del self._last[key]
        else:
            mine.add_done_callback(
                lambda _: self._last.pop(key) if self._last.get(key) is mine else None
            )

    # -- once more --------------------------------------------------------------------------------

    async def _ask(self, key: ShareKey, question: Question) -> Any:
        clock = self._broker.clock
        deadline = clock.monotonic() + PATIENCE_MS
        pause_ms = RETRY_MS
        while True:
            try:
                told = await self._ask_once(key, question)
            except Exception:
                log.exception("share state of %s: the coordinator was not asked", key.name)
                return Told(ErrorCode.UNKNOWN_SERVER_ERROR)
            if not isinstance(told, Told) or not self._passes(key, told.error):
                return told
            if clock.monotonic() + pause_ms > deadline:
                log.warning("share state of %s: %s for too long", key.name, told.error.name)
                return told
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_MS_MAX)

    def _passes(self, key: ShareKey, error: ErrorCode) -> bool:
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # perhaps only the coordinator lags
            topic = self._broker.image.topics.by_id.get(key.topic_id)
            return topic is not None and key.partition in topic.partitions
        return error in _PASSES

    async def _ask_once(self, key: ShareKey, question: Question) -> Any:
        broker = self._broker
        topic = broker.image.topics.by_name.get(SHARES_TOPIC)
        if topic is None:
            await broker.coordinators.topics.make(SHARES_TOPIC)
            await broker.settled()
            topic = broker.image.topics.by_name.get(SHARES_TOPIC)
        index = -1 if topic is None else shard_of(key.name, len(topic.partitions))
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None or partition.leader < 0:
            return Told(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if partition.leader != broker.node_id:
            return await self._trade.ask(partition.leader, key, question)
        told = ask_here(broker, key, question.act, index)
        return await told if isinstance(told, asyncio.Future) else told
