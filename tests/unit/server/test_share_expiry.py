"""Records whose time is over are not delivered to share groups, on topics that say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.model.ttl import TTL_MS
from penstock.records.builder import BatchBuilder
from tests.unit.server.asking import Asker, asking, port_of, running_node
from tests.unit.server.share_talk import (
    REJECT,
    RELEASE,
    Said,
    Talker,
    acquired,
    begin_group,
    broker_of,
    configure,
)

LONG_MS = 3_600_000
TTL = {"penstock.ttl.enable": "true"}
COMPRESSIONS = range(5)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as made:
        yield made


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        yield made


async def member(node: Node, asker: Asker, configs: Mapping[str, str] = TTL) -> Talker:
    topic_id = await asker.create("t", configs=configs)
    await begin_group(node, "g", topic_id)
    return Talker(asker, topic_id)


async def send(
    node: Node, asker: Asker, *lives: int | None, age_ms: int = 1000, compression: int = 0
) -> None:
    """One batch of records as old as `age_ms`, each with the time to live that it is given."""
    made_at = broker_of(node).clock.now() - age_ms
    builder = BatchBuilder(compression=compression)
    for life in lives:
        headers = [] if life is None else [(TTL_MS, str(life).encode())]
        builder.append(b"k", b"v", made_at, headers)
    assert (await asker.produce("t", builder.build())).error_code == ErrorCode.NONE


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_only_what_is_young_enough_is_delivered(
    node: Node, asker: Asker, compression: int
) -> None:
    anna = await member(node, asker)
    await send(node, asker, 10, 10, LONG_MS, None, 10, LONG_MS, compression=compression)
    assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(2, 3, 1), (5, 5, 1)]
    await anna.acknowledge(Said(2, 3), Said(5, 5))
    assert acquired(await anna.fetch()) == []


async def test_batches_of_which_nothing_is_left_are_passed_over(node: Node, asker: Asker) -> None:
    anna = await member(node, asker)
    for _ in range(40):
        await send(node, asker, 10, 10)
    await send(node, asker, LONG_MS)
    assert acquired(await anna.fetch(0, max_wait_ms=5000, max_records=2)) == [(80, 80, 1)]


async def test_a_record_that_comes_back_may_be_too_old_by_then(node: Node, asker: Asker) -> None:
    anna = await member(node, asker)
    await send(node, asker, 400, LONG_MS, age_ms=0)
    assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(0, 1, 1)]
    await asyncio.sleep(0.45)
    await anna.acknowledge(Said(0, 1, (RELEASE,)))
    assert acquired(await anna.fetch()) == [(1, 1, 2)]


async def test_other_topics_do_not_look_at_the_header(node: Node, asker: Asker) -> None:
    anna = await member(node, asker, {})
    await send(node, asker, 10)
    assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(0, 0, 1)]


LETTERS = {"errors.deadletterqueue.topic.name": "dlq.t"}


async def with_letters(asker: Asker) -> None:
    await asker.create("dlq.t", configs={"errors.deadletterqueue.group.enable": "true"})
    await configure(asker, "g", LETTERS)


async def letters(node: Node, count: int) -> None:
    """Wait until so many records lie in the dead-letter topic."""
    async with asyncio.timeout(10):
        while broker_of(node).hosted["dlq.t", 0].high_watermark != count:
            await asyncio.sleep(0.01)


async def test_what_expired_goes_to_the_dead_letters_of_a_group_that_has_some(
    node: Node, asker: Asker
) -> None:
    anna = await member(node, asker)
    await with_letters(asker)
    await send(node, asker, 10, LONG_MS, 10)
    assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(1, 1, 1)]
    await letters(node, 2)
    log = broker_of(node).hosted["dlq.t", 0].log
    assert b"expired" in log.read_bytes(0, 1 << 20)


async def test_the_last_member_may_leave_before_the_dead_are_buried(
    node: Node, asker: Asker
) -> None:
    anna = await member(node, asker)
    await with_letters(asker)
    await send(node, asker, None)
    await anna.fetch(0, max_wait_ms=5000)
    await anna.acknowledge(Said(0, 0, (REJECT,)))
    await anna.close()
    await letters(node, 1)
    shares = broker_of(node).shares
    async with asyncio.timeout(10):
        while len(shares.partitions):  # and only then is the group forgotten
            await asyncio.sleep(0.01)
