"""Share coordinators on several nodes: reached from anywhere, over bad lines, while they move."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from penstock.coordination.delivery.effects import Held, State, StateBatch
from penstock.model.errors import ErrorCode
from penstock.server.internal_topics import SHARES_TOPIC
from penstock.server.share_persister import ShareKey, SharePersister
from penstock.server.share_persister_trade import LINES
from tests.unit.server.several import BadLine, Several, several_nodes

PARTITIONS = 6
CONFIG = {"share.coordinator.state.topic.num.partitions": "3"}


class BadShareLine(BadLine):
    """Loses and doubles what a broker asks of share coordinators."""

    PURPOSES = tuple(f"shares-{number}" for number in range(LINES))  # type: ignore[assignment]


def persister_of(nodes: Several, number: int) -> SharePersister:
    return nodes.nodes[number].broker.coordinators.persister


def acknowledged(first: int, last: int) -> StateBatch:
    return StateBatch(first, last, State.ACKNOWLEDGED, 1)


async def test_every_node_reaches_every_coordinator_over_bad_lines(tmp_path: Path) -> None:
    async with several_nodes(tmp_path, config=CONFIG) as nodes:
        topic_id = await nodes.create("orders", partitions=PARTITIONS)
        keys = [ShareKey(group, topic_id, at) for group in "abc" for at in range(PARTITIONS)]
        lines = [BadShareLine(it, random.Random(7)) for it in nodes.nodes.values()]

        async def work(number: int, key: ShareKey) -> None:
            persister = persister_of(nodes, number)
            assert await persister.initialize(key, 1, 0) is ErrorCode.NONE
            assert await persister.read(key, number) == Held(1, 0)
            for at in range(4):
                batches = [acknowledged(2 * at + 1, 2 * at + 1)]
                error = await persister.write(key, 1, number, 0, at + 1, batches)
                assert error is ErrorCode.NONE
            summary = await persister.summary(key)
            assert summary == (1, number, 0, 4)

        await asyncio.gather(*(work(1 + at % 3, key) for at, key in enumerate(keys)))
        assert sum(line.faults for line in lines) > 10
        leaders = {nodes.leader(SHARES_TOPIC, index) for index in range(3)}
        assert leaders == {1, 2, 3}
        for at, key in enumerate(keys):
            held = await persister_of(nodes, 2).read(key, 1 + at % 3)
            assert held == Held(1, 0, tuple(acknowledged(at, at) for at in (1, 3, 5, 7)))


async def test_the_next_leader_of_a_coordinator_knows_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    async with several_nodes(tmp_path, config=CONFIG) as nodes:
        topic_id = await nodes.create("orders", partitions=3, replicas=3)
        keys = [ShareKey("g", topic_id, at) for at in range(3)]
        persister = persister_of(nodes, 2)
        for key in keys:
            assert await persister.initialize(key, 0, 0) is ErrorCode.NONE
        done: dict[ShareKey, int] = dict.fromkeys(keys, 0)

        async def work(key: ShareKey) -> None:
            for at in range(1, 60):
                error = await persister.write(key, 0, 0, at, 0, [acknowledged(at + 5, at + 5)])
                assert error is ErrorCode.NONE
                done[key] = at
                await asyncio.sleep(0.01)

        tasks = [asyncio.ensure_future(work(key)) for key in keys]
        await asyncio.sleep(0.2)
        await nodes.stop(1)
        await asyncio.gather(*tasks)
        for key in keys:
            held = await persister.read(key, 0)
            assert isinstance(held, Held)
            assert (held.start, done[key]) == (59, 59)
            assert held.batches == (acknowledged(59, 64),)
