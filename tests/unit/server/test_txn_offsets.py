"""Offsets within transactions, through a whole node: who may add them, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.coordination.txn.adding import TAKES_PART, Participation, Verdict
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.server import txn_verification
from tests.unit.server.asking import Asker, asking, port_of, running_node
from tests.unit.server.txn_talk import SHARDS, Talk

GROUPS_TOPIC = "__consumer_offsets"
GROUP = "readers"
ONE_SHARD = {"offsets.topic.num.partitions": "1"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path, ONE_SHARD) as node:
        yield node


@pytest.fixture
async def talk(node: Node) -> AsyncIterator[Talk]:
    async with asking(port_of(node)) as asker:
        yield await Talk(asker, "orders").open()


async def find_group(asker: Asker) -> None:
    """Have the group's shard made and loaded."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    for _ in range(500):
        if not (await asker.ask(request, 4)).coordinators[0].error_code:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("no coordinator")


def offsets(talk: Talk, offset: int = 5) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=talk.name,
        group_id=GROUP,
        producer_id=talk.producer_id,
        producer_epoch=talk.epoch,
        generation_id=-1,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=talk.topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                ],
            )
        ],
    )


def error_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)


class Asked:
    """A coordinator whose answers to leaders come when the test lets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[tuple[asyncio.Future[Verdict], Any]] = []
        self._ask = txn_verification.ask
        self.holding = True
        monkeypatch.setattr(txn_verification, "ask", self._hold)

    def _hold(self, broker: Any, what: Participation, verify_only: bool) -> Any:
        answer = self._ask(broker, what, verify_only)
        if not self.holding:
            return answer
        assert answer == TAKES_PART
        later: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.waiting.append((later, answer))
        return later

    async def was_asked(self) -> None:
        for _ in range(500):
            if self.waiting:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("nobody asked")

    def let_go(self) -> None:
        self.holding = False
        for later, answer in self.waiting:
            later.set_result(answer)


async def test_offsets_do_not_join_a_transaction_that_ended_while_its_coordinator_was_asked(
    node: Node, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await find_group(talk.asker)
    await talk.init()
    assert not await talk.add_offsets(GROUP)
    asked = Asked(monkeypatch)
    async with asking(port_of(node)) as late:
        late.send(offsets(talk), 4)
        await asked.was_asked()
        assert not await talk.end(version=4)
        await talk.settle()
        asked.let_go()
        answer = await late.receive(TxnOffsetCommitRequest.API_KEY, 4)
    assert error_of(answer) is ErrorCode.TRANSACTION_ABORTABLE
    partition = node.broker.hosted[GROUPS_TOPIC, 0]
    assert partition.last_stable == partition.high_watermark
    assert not node.broker.coordinators.groups.shards()[0][1].offsets.any_open


async def test_offsets_join_the_next_transaction_if_the_markers_before_came_between(
    node: Node, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await find_group(talk.asker)
    await talk.init()
    assert not await talk.add_offsets(GROUP)
    asked = Asked(monkeypatch)
    async with asking(port_of(node)) as late:
        late.send(offsets(talk), 4)
        await asked.was_asked()
        assert not await talk.end(version=4)
        await talk.settle()
        assert not await talk.add_offsets(GROUP)
        asked.let_go()
        answer = await late.receive(TxnOffsetCommitRequest.API_KEY, 4)
    assert error_of(answer) is ErrorCode.NONE
    assert not await talk.end(version=4)
    await talk.settle()
    table = node.broker.coordinators.groups.shards()[0][1].offsets
    assert table.find(GROUP, talk.topic, 0) is not None
    assert not table.any_open


async def test_offsets_join_while_the_coordinators_disk_is_slow(tmp_path: Path) -> None:
    async with running_node(tmp_path, ONE_SHARD) as node, asking(port_of(node)) as asker:
        await asker.create("__transaction_state", SHARDS, {"flush.messages": "1"})
        talk = await Talk(asker, "orders").open()
        await find_group(asker)
        await talk.init()
        for offset in range(3):
            assert error_of(await asker.ask(offsets(talk, offset), 5)) is ErrorCode.NONE
            assert not await talk.end()


async def test_without_the_groups_coordinator_nothing_joins_the_transaction(talk: Talk) -> None:
    await talk.init()
    assert error_of(await talk.asker.ask(offsets(talk), 5)) is ErrorCode.NOT_COORDINATOR
    assert (await talk.describe()).topics == []
