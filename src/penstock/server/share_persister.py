"""How a broker reaches share coordinators: here or on another broker, with patience and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.coordination.delivery.effects import Held, StateBatch
    from penstock.model.errors import ErrorCode
    from penstock.server.broker import Broker


class ShareKey(NamedTuple):
    """One share group on one partition."""

    group_id: str
    topic_id: bytes
    partition: int


class Summary(NamedTuple):
    """How far a group has come on a partition."""

    state_epoch: int
    leader_epoch: int
    start: int
    complete: int


class SharePersister:
    """Asks and tells the coordinator of each key. Errors come back as codes, never as exceptions;
    what passes by itself (no coordinator yet, loading, moved) is tried again for a while."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def initialize(self, key: ShareKey, state_epoch: int, start: int) -> ErrorCode:
        raise NotImplementedError

    async def read(self, key: ShareKey, leader_epoch: int) -> Held | ErrorCode:
        raise NotImplementedError

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        raise NotImplementedError

    async def delete(self, key: ShareKey) -> ErrorCode:
        raise NotImplementedError

    async def summary(self, key: ShareKey) -> Summary | ErrorCode:
        raise NotImplementedError

    def close(self) -> None:
        """The node stops."""
