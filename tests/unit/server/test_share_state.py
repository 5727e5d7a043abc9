"""The share coordinator of one node: over the wire, as the node itself asks it, and reopened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.app.node import Node
from penstock.coordination.delivery.effects import Held, State, StateBatch
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis, uuid_text
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStateData,
)
from penstock.server import share_persister
from penstock.server.internal_topics import SHARES_TOPIC
from penstock.server.share_persister import ShareKey, SharePersister, Summary
from tests.unit.server.asking import Asker, asking, asking_node, port_of, running_node
from tests.unit.server.share_state_talk import ShareTalk

QUICK = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.state.topic.prune.interval.ms": "100",
    "share.coordinator.cold.partition.snapshot.interval.ms": "60000",
}
BATCHES = (
    StateBatch(12, 14, State.AVAILABLE, 2, Millis(99)),
    StateBatch(17, 17, State.ACKNOWLEDGED, 1),
)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, QUICK) as it:
        yield it


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as it:
        yield it


def persister_of(node: Node) -> SharePersister:
    return node.broker.coordinators.persister


async def test_the_topic_is_made_when_somebody_first_asks(node: Node, asker: Asker) -> None:
    key = ShareKey("g", await asker.create("orders", 2), 1)
    persister = persister_of(node)
    assert await persister.summary(key) == Summary(0, 0, -1, -1)
    assert SHARES_TOPIC in node.broker.image.topics.by_name
    assert await persister.initialize(key, 3, 10) is ErrorCode.NONE
    assert await persister.read(key, 5) == Held(3, 10)
    assert await persister.write(key, 3, 5, 11, 1, BATCHES) is ErrorCode.NONE
    assert await persister.read(key, 5) == Held(3, 11, BATCHES)
    assert await persister.summary(key) == Summary(3, 5, 11, 1)
    assert await persister.write(key, 3, 4, 11, 1, BATCHES) is ErrorCode.FENCED_LEADER_EPOCH
    assert await persister.write(key, 2, 5, 11, 1, BATCHES) is ErrorCode.FENCED_STATE_EPOCH
    assert await persister.delete(key) is ErrorCode.NONE
    assert await persister.read(key, 5) is ErrorCode.INVALID_REQUEST


async def test_brokers_are_answered_over_the_wire(asker: Asker) -> None:
    talk = ShareTalk(asker, await asker.create("orders", 2))
    found = await talk.find(f"workers:{uuid_text(talk.topic_id)}:1")
    assert (found.error_code, found.node_id) == (0, 1)
    assert await talk.initialize(1, epoch=2, start=5) == 0
    assert await talk.write(BATCHES, 1, epoch=2, start=6, complete=3) == 0
    assert await talk.read(1) == (0, 2, 6, [tuple(it) for it in BATCHES])
    assert await talk.summary(1) == (0, 2, 0, 6, 3)
    assert await talk.summary(1, version=0) == (0, 2, 0, 6, -1)
    assert await talk.delete(1) == 0
    assert await talk.summary(1) == (0, 0, 0, -1, -1)


async def test_a_state_that_nobody_knows_is_refused(asker: Asker) -> None:
    talk = ShareTalk(asker, await asker.create("orders"))
    await talk.find(f"workers:{uuid_text(talk.topic_id)}:0")
    await talk.initialize()
    for wrong in (1, 5, -1, 127):
        assert await talk.write([(0, 1, wrong, 1)]) == ErrorCode.INVALID_REQUEST
    assert await talk.read() == (0, 0, 0, [])


async def test_requests_that_leave_something_out_have_empty_answers(asker: Asker) -> None:
    topic_id = await asker.create("orders")
    for request in (
        ReadShareGroupStateRequest(group_id="g"),
        ReadShareGroupStateRequest(group_id="g", topics=[ReadStateData(topic_id=topic_id)]),
    ):
        assert (await asker.ask(request, 0)).results == []


async def test_what_is_written_survives_the_node(tmp_path: Path) -> None:
    async with asking_node(tmp_path, QUICK) as asker:
        topic_id = await asker.create("orders")
        talk = ShareTalk(asker, topic_id)
        await talk.find(f"workers:{uuid_text(topic_id)}:0")
        await talk.initialize(epoch=1, start=10)
        for at in range(17):
            assert await talk.write([(20 + 2 * at, 20 + 2 * at, 2, 1)], epoch=1) == 0
        before = await talk.read(leader=3)
    async with running_node(tmp_path, QUICK) as node:
        key = ShareKey("workers", topic_id, 0)
        after = await persister_of(node).read(key, 3)
        assert isinstance(after, Held)
        assert (0, *after[:2], [tuple(it) for it in after.batches]) == before
        assert len(after.batches) == 17


async def test_the_log_is_cut_below_what_is_needed(node: Node, asker: Asker) -> None:
    key = ShareKey("g", await asker.create("orders"), 0)
    persister = persister_of(node)
    await persister.initialize(key, 0, 0)
    for at in range(30):
        await persister.write(key, 0, 0, at, 0, ())
    partition = node.broker.hosted[SHARES_TOPIC, 0]
    async with asyncio.timeout(10):
        while partition.log.start < 24:
            await asyncio.sleep(0.02)
    assert partition.log.start <= partition.log.end - 1
    runtime = node.broker.coordinators.shares
    runtime.lose(0)
    runtime.lead(partition)
    assert await persister.read(key, 0) == Held(0, 29)


async def test_no_retention_takes_what_groups_have_done(tmp_path: Path) -> None:
    short = {"log.retention.bytes": "1000", "log.retention.ms": "1000", **QUICK}
    async with running_node(tmp_path, short) as node, asking(port_of(node)) as asker:
        key = ShareKey("g", await asker.create("orders"), 0)
        await persister_of(node).initialize(key, 0, 0)
        config = node.broker.hosted[SHARES_TOPIC, 0].log.config
        assert (config.retention_bytes, config.retention_ms) == (-1, -1)
        assert node.broker.hosted["orders", 0].log.config.retention_bytes == 1000


async def test_states_of_deleted_topics_go(node: Node, asker: Asker) -> None:
    key = ShareKey("g", await asker.create("orders"), 0)
    persister = persister_of(node)
    await persister.initialize(key, 0, 0)
    shard = node.broker.coordinators.shares.shard(0)
    assert shard is not None and key in shard.states
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=5_000)
    assert (await asker.ask(request, 6)).responses[0].error_code == 0
    async with asyncio.timeout(10):
        while shard.states:
            await asyncio.sleep(0.02)
    assert await persister.read(key, 0) is ErrorCode.INVALID_REQUEST


async def test_what_one_key_has_to_say_is_said_in_order(node: Node, asker: Asker) -> None:
    key = ShareKey("g", await asker.create("orders"), 0)
    persister = persister_of(node)
    said = [
        asyncio.ensure_future(persister.initialize(key, 0, 0)),
        *(asyncio.ensure_future(persister.write(key, 0, 0, at, at, ())) for at in range(20)),
    ]
    given_up = asyncio.ensure_future(persister.write(key, 0, 0, 99, 0, ()))
    last = asyncio.ensure_future(persister.delete(key))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await asyncio.gather(*said) == [ErrorCode.NONE] * 21
    assert await last is ErrorCode.NONE
    assert await persister.summary(key) == Summary(0, 0, -1, -1)
    assert persister._last == {}, "nothing is remembered of a key that is silent"


async def test_a_coordinator_that_does_not_come_is_not_waited_for_forever(
    node: Node, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_persister, "PATIENCE_MS", 100)
    key = ShareKey("g", await asker.create("orders"), 0)
    persister = persister_of(node)
    await persister.initialize(key, 0, 0)
    node.broker.coordinators.shares.lose(0)
    assert await persister.read(key, 0) is ErrorCode.NOT_COORDINATOR


async def test_a_fault_of_our_own_comes_back_as_an_error(
    node: Node, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ShareKey("g", await asker.create("orders"), 0)
    persister = persister_of(node)
    with monkeypatch.context() as broken:
        broken.setattr(share_persister, "shard_of", lambda *_: 1 // 0)
        assert await persister.initialize(key, 0, 0) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert await persister.initialize(key, 0, 0) is ErrorCode.NONE
