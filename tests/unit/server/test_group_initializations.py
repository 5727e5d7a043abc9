"""The state of share partitions is begun once, however often and late a group asks for it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.initializing import Initialization
from penstock.coordination.group.share.readiness import NOTHING_READY, Topic
from penstock.model.errors import ErrorCode
from penstock.server.group_initializations import Initializations
from penstock.server.share_persister import ShareKey

ORDERS = b"o" * 16
TOPICS = {ORDERS: Topic("orders", frozenset({0, 1}))}
ERRAND = Initialization("g", 2, TOPICS)


class Scene:
    """A group that waits for its state, and a share coordinator that lets it wait."""

    def __init__(self) -> None:
        self.begun: list[ShareKey] = []
        self.gate = asyncio.Event()
        self.reports = 0
        self.group = ShareGroup("g")
        self.group.ready = NOTHING_READY.beginning(TOPICS)
        shard = SimpleNamespace(groups={"g": self.group})
        groups = SimpleNamespace(shard=lambda _: shard, call_shard=self.report)
        coordinators = SimpleNamespace(persister=self, groups=groups)
        broker = SimpleNamespace(loop=asyncio.get_running_loop(), coordinators=coordinators)
        self.errands = Initializations(cast(Any, broker))

    async def initialize(self, key: ShareKey, epoch: int, start: int) -> ErrorCode:
        assert (epoch, start) == (2, -1)
        self.begun.append(key)
        await self.gate.wait()
        return ErrorCode.NONE

    def report(self, *_: object) -> None:
        self.reports += 1

    async def ask(self) -> None:
        self.errands.run(0, ERRAND)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_what_is_being_begun_is_not_begun_once_more() -> None:
    scene = Scene()
    await scene.ask()
    await scene.ask()
    assert scene.begun == [ShareKey("g", ORDERS, 0), ShareKey("g", ORDERS, 1)]
    scene.gate.set()
    async with asyncio.timeout(5):
        while not scene.reports:
            await asyncio.sleep(0)
    await scene.ask()
    assert len(scene.begun) == 4, "it failed, for all that the group knows"
    assert scene.reports == 2


async def test_what_was_begun_before_an_errand_is_let_go_is_left_alone() -> None:
    scene = Scene()
    scene.gate.set()
    scene.group.ready = NOTHING_READY.beginning(TOPICS).begun(TOPICS)
    await scene.ask()
    assert scene.begun == []
    scene.errands.run(0, ERRAND._replace(group_id="gone"))
    await asyncio.sleep(0)
    assert scene.begun == []
