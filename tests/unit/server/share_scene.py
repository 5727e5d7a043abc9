"""A node that several tests share, and a topic and a share group of its own for each of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from tests.unit.server.asking import Asker, asking, batch, port_of
from tests.unit.server.share_talk import Talker, begin_group, broker_of

LOCK_MS = 1000
SETTINGS = {
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.max.share.sessions": "4",
}


class Scene:
    """A topic of its own for each test, and a group that has just begun with it."""

    def __init__(self, node: Node, asker: Asker, topic: str, topic_id: bytes) -> None:
        self.node = node
        self.asker = asker
        self.topic = topic
        self.topic_id = topic_id
        self.group = topic

    async def produce(self, *counts: int, index: int = 0, first: int = 0) -> None:
        """Batches of so many records each."""
        for count in counts:
            answer = await self.asker.produce(self.topic, batch(count, first), index)
            assert answer.error_code == ErrorCode.NONE

    @asynccontextmanager
    async def member(self, name: str = "anna") -> AsyncIterator[Talker]:
        async with asking(port_of(self.node)) as asker:
            yield Talker(asker, self.topic_id, self.group, name)

    async def parked(self, count: int) -> None:
        async with asyncio.timeout(5):
            while broker_of(self.node).parked_fetches != count:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def fresh_scene(node: Node, name: str) -> AsyncIterator[Scene]:
    """For the test with this name; all its members are gone before the next one begins."""
    async with asking(port_of(node)) as asker:
        topic = re.sub("[^a-z0-9_.]", ".", name)[:200]
        topic_id = await asker.create(topic, 3)
        await begin_group(node, topic, topic_id, 3)
        yield Scene(node, asker, topic, topic_id)
    async with asyncio.timeout(5):
        while len(broker_of(node).shares.sessions):
            await asyncio.sleep(0.005)
