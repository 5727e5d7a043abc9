"""Share coordinators of Penstock and of Apache Kafka: told the same, both keep and say the same.

Each talk is held with both, and the notes are compared; then each reads what the other has written.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.coordination.delivery.effects import State, StateBatch
from penstock.coordination.share.batches import merged
from penstock.model.errors import ErrorCode
from penstock.model.ids import uuid_text
from tests.oracle.nodes import ApacheNode
from tests.unit.server.asking import asking, asking_node
from tests.unit.server.share_state_talk import Row, ShareTalk

pytestmark = pytest.mark.java

CONFIG = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}
PASSING = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class Notes:
    """What a coordinator told, in the order in which it was asked."""

    def __init__(self, talk: ShareTalk) -> None:
        self._talk = talk
        self.told: list[Any] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def ask(*arguments: Any, **named: Any) -> None:
            told = await getattr(self._talk, name)(*arguments, **named)
            self.told.append((name, arguments, named, _as_one(told) if name == "read" else told))

        return ask


def _as_one(told: tuple[int, int, int, list[Row]]) -> Any:
    """Apache leaves some batches apart that touch and say the same."""
    rows = [StateBatch(it[0], it[1], State(it[2]), *it[3:]) for it in told[3]]  # type: ignore[arg-type]
    return *told[:3], merged(rows, -1)


Holding = Callable[[Notes], Awaitable[None]]
Agree = Callable[[Holding], Awaitable[None]]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache"), config=CONFIG) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def agree(
    apache: ApacheNode, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Agree]:
    name = request.node.name.removeprefix("test_").translate({91: "-", 93: None})

    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(asking(apache.port))
        ours = await stack.enter_async_context(asking_node(tmp_path, CONFIG))

        async def compare(hold: Holding) -> None:
            notes = []
            for asker in (theirs, ours):
                talk = ShareTalk(asker, await asker.create(name, 2))
                await _ready(talk)
                notes.append(Notes(talk))
                await hold(notes[-1])
            for mine, other in zip(notes[1].told, notes[0].told, strict=True):
                assert mine == other, "first ours, then Kafka's"

        yield compare


async def _ready(talk: ShareTalk) -> None:
    """When somebody coordinates, and says so."""
    async with asyncio.timeout(60):
        while True:
            found = await talk.find(f"{talk.group_id}:{uuid_text(talk.topic_id)}:0")
            if not found.error_code and (await talk.summary())[0] not in PASSING:
                return
            await asyncio.sleep(0.1)


async def test_beginning_and_end(agree: Agree) -> None:
    async def hold(notes: Notes) -> None:
        await notes.summary(0)
        await notes.read(0)
        await notes.write([(0, 1, 2, 1)], 0)
        await notes.delete(0)
        await notes.initialize(0, epoch=1, start=-1)
        await notes.summary(0)
        await notes.read(0)
        await notes.initialize(0, epoch=1, start=7)
        await notes.summary(0)
        await notes.summary(0, version=0)
        await notes.initialize(0, epoch=0, start=3)
        await notes.initialize(0, epoch=-1, start=3)
        await notes.delete(0)
        await notes.read(0)
        await notes.summary(0)

    await agree(hold)


async def test_fencing(agree: Agree) -> None:
    async def hold(notes: Notes) -> None:
        await notes.initialize(1, epoch=3, start=0)
        for leader in (-1, 0, 2, 2, 1, 5, -1):
            await notes.read(1, leader=leader)
            await notes.summary(1)
        for epoch in (-1, 2, 3, 4):
            for leader in (-1, 4, 5, 6):
                await notes.write([(0, 1, 2, 1)], 1, epoch=epoch, leader=leader)
        await notes.read(1, leader=5)
        await notes.summary(1)

    await agree(hold)


async def test_partitions_that_there_are_not(agree: Agree) -> None:
    async def hold(notes: Notes) -> None:
        for partition in (-1, 2):
            await notes.initialize(partition)
            await notes.read(partition)
            await notes.write([], partition)
            await notes.delete(partition)
            await notes.summary(partition)

    await agree(hold)


@pytest.mark.parametrize("seed", range(3))
async def test_any_batches(agree: Agree, seed: int) -> None:
    async def hold(notes: Notes) -> None:
        chance = random.Random(seed)
        await notes.initialize(0, epoch=0, start=0)
        start = 0
        for _ in range(60):
            batches = []
            for _ in range(chance.randrange(4)):
                first = start + chance.randrange(40)
                last = first + chance.randrange(12)
                batches.append((first, last, chance.choice([0, 2, 3, 4]), chance.randrange(1, 4)))
            moved = chance.random() < 0.3
            start += chance.randrange(6) if moved else 0
            await notes.write(
                batches, 0, start=start if moved else -1, complete=chance.randrange(9)
            )
            await notes.read(0)
            await notes.summary(0)

    await agree(hold)
