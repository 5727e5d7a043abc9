"""Brings records that a share group has given up to its dead-letter topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.delivery.effects import DeadLetter
    from penstock.replica.partition import Partition
    from penstock.server.broker import Broker


class DeadLetters:
    """Copies records, with what went wrong in their headers, wherever the topic is led."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def bury(self, group_id: str, source: Partition, letter: DeadLetter) -> bool:
        """Whether all of the letter's records are in the topic, committed. Some may be there twice
        if not: the caller tries again."""
        raise NotImplementedError
