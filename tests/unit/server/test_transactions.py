"""Transactions through a whole node: slow disks, restarts, lost leaders and deleted topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.coordination.txn.adding import Verdict
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.end_txn import EndTxnRequest
from penstock.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.server import txn_first_batches, txn_markers, txn_verification
from penstock.server.txn_markers import MARKERS_AT_ONCE, MarkerWriter
from tests.unit.server.asking import asking, asking_node, batch, port_of, running_node
from tests.unit.server.txn_talk import SHARDS, STATE_TOPIC, Talk


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    async with asking_node(tmp_path) as asker:
        yield await Talk(asker, "orders").open()


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[Talk]:
    """A coordinator whose records are committed when they are synced, and not before."""
    async with asking_node(tmp_path) as asker:
        await asker.create(STATE_TOPIC, SHARDS, {"flush.messages": "1"})
        yield await Talk(asker, "orders").open()


def first_batches(talk: Talk, count: int, acks: int = -1) -> list[ProduceRequest]:
    """The first requests of a transaction, one record each, all to partition 0."""
    return [
        ProduceRequest(
            transactional_id=talk.name,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=talk.topic,
                    partition_data=[
                        PartitionProduceData(
                            index=0,
                            records=batch(  # type: ignore[arg-type]
                                first=number,
                                producer_id=talk.producer_id,
                                producer_epoch=talk.epoch,
                                base_sequence=number,
                                transactional=True,
                            ),
                        )
                    ],
                )
            ],
        )
        for number in range(count)
    ]


async def test_pipelined_batches_keep_their_order_while_the_coordinator_is_asked(
    slow: Talk,
) -> None:
    await slow.init()
    for request in first_batches(slow, 5):
        slow.asker.send(request, 12)
    answers = [await slow.asker.receive(0, 12) for _ in range(5)]
    told = [each.responses[0].partition_responses[0] for each in answers]
    assert [(each.error_code, each.base_offset) for each in told] == [(0, at) for at in range(5)]
    assert not await slow.end()
    await slow.settle()
    lines = await slow.read(0)
    assert [line.split()[1] for line in lines if "commit" not in line] == ["data"] * 5


async def test_batches_that_nobody_waits_for_are_appended_in_order_too(slow: Talk) -> None:
    await slow.init()
    for request in first_batches(slow, 5, acks=0):
        slow.asker.send(request, 12)
    await slow.describe()
    for _ in range(100):
        if len(await slow.read(0, committed=False)) == 5:
            break
        await asyncio.sleep(0.02)
    assert len(await slow.read(0, committed=False)) == 5
    assert await slow.read(0) == []


async def test_a_client_that_goes_away_holds_up_nobody_behind_it(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as stays:
        await stays.create(STATE_TOPIC, SHARDS, {"flush.messages": "1"})
        talk = await Talk(stays, "orders").open()
        await talk.init()
        async with asking(port_of(node)) as goes:
            for request in first_batches(talk, 3):
                goes.send(request, 12)
            await goes._writer.drain()
        for request in first_batches(talk, 5):
            stays.send(request, 12)
        answers = [await stays.receive(0, 12) for _ in range(5)]
        told = [each.responses[0].partition_responses[0] for each in answers]
        assert [(each.error_code, each.base_offset) for each in told] == [(0, n) for n in range(5)]
        assert not node.broker.coordinators.verifications


async def test_a_refusal_that_nobody_waits_for_closes_the_connection(slow: Talk) -> None:
    await slow.init()
    slow.epoch += 1
    slow.asker.send(first_batches(slow, 1, acks=0)[0], 12)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        for _ in range(100):
            await slow.describe()
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("acks", [-1, 0])
async def test_batches_that_wait_take_bounded_memory(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    ask = txn_verification.ask

    def ask_slowly(*what: Any) -> asyncio.Future[Verdict]:
        loop = asyncio.get_running_loop()
        later: asyncio.Future[Verdict] = loop.create_future()
        loop.call_later(0.5, later.set_result, ask(*what))
        return later

    await talk.init()
    monkeypatch.setattr(txn_first_batches, "WAITING_BYTES_MAX", 150)
    monkeypatch.setattr(txn_verification, "ask", lambda *what, **_: ask_slowly(*what, False))
    for request in first_batches(talk, 4, acks):
        talk.asker.send(request, 12)
    if acks == 0:  # nobody can be told in another way
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await talk.asker.receive(0, 12)
        return
    answers = [await talk.asker.receive(0, 12) for _ in range(4)]
    told = [each.responses[0].partition_responses[0].error_code for each in answers]
    assert told == [0, 0, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS]
    again = await talk.asker.ask(first_batches(talk, 3)[2], 12)
    assert not again.responses[0].partition_responses[0].error_code


async def test_a_coordinator_that_never_answers_is_not_waited_for_for_ever() -> None:
    never: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    broker: Any = SimpleNamespace(config=SimpleNamespace(get_int=lambda _: 10))
    verdict = await txn_verification._in_time(broker, never)
    assert verdict.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_batch_that_waits_is_not_overwritten_by_the_next_request(slow: Talk) -> None:
    await slow.init()
    first, other = first_batches(slow, 2)
    slow.asker.send(first, 12)
    other.transactional_id = None
    for _ in range(50):  # each is read into the buffer where the first one lay
        slow.asker.send(other, 12)
    answers = [await slow.asker.receive(0, 12) for _ in range(51)]
    told = [each.responses[0].partition_responses[0].error_code for each in answers]
    refused = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert told == [0] + [refused] * 50
    found = await slow._fetch(slow.topic, slow.topic_id, 0, False)
    assert b"value-0" in bytes(found.records)


async def test_one_request_begins_on_many_partitions_with_one_record(talk: Talk) -> None:
    await talk.init()
    await talk.send(0, 1, 2)
    await talk.written()
    records = [line for line in talk.notes if line.startswith("record")]
    assert ["Empty" in records[0], "Ongoing" in records[1], len(records)] == [True, True, 2]


async def test_a_decision_is_carried_out_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(MarkerWriter, "run", lambda *_: None)
        async with asking_node(tmp_path) as asker:
            talk = await Talk(asker, "orders").open()
            await talk.init()
            await talk.send(0)
            assert not await talk.end()
            assert (await talk.describe()).transaction_state == "PrepareCommit"
            assert await talk.read(0) == []
            assert await talk.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    async with asking_node(tmp_path) as asker:
        talk.asker = asker
        await _loaded(talk)
        await talk.settle()
        assert (await talk.describe()).transaction_state == "CompleteCommit"
        assert [line.split()[1] for line in await talk.read(0)][:1] == ["data"]


async def _loaded(talk: Talk) -> None:
    for _ in range(200):
        if await talk._answers():
            return
        await asyncio.sleep(0.02)


async def test_an_open_transaction_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        talk = await Talk(asker, "orders").open()
        await talk.init()
        await talk.send(0)
    async with asking_node(tmp_path) as asker:
        talk.asker = asker
        await _loaded(talk)
        assert await talk.send(0, 1) == [ErrorCode.NONE] * 2
        assert not await talk.end()
        await talk.settle()
        for index in (0, 1):
            assert "data" in (await talk.read(index))[0]


async def test_markers_are_tried_again_until_they_are_written(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, calls = txn_markers.append_here, []

    def not_yet(broker: Any, topic: str, index: int, marker: Any) -> Any:
        calls.append(index)
        if len(calls) < 6:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return append(broker, topic, index, marker)

    await talk.init()
    await talk.send(0, 1)
    monkeypatch.setattr(txn_markers, "append_here", not_yet)
    assert not await talk.end()  # the client does not wait for that
    await talk.settle()
    for index in (0, 1):
        assert len(await talk.read(index)) >= 1
    assert len(calls) >= 6


async def test_markers_are_waited_for_until_they_are_synced(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        talk = await Talk(asker, "orders").open(flush_messages="1")
        await talk.init()
        for commit in (True, False):
            await talk.send(0, 1)
            assert not await talk.end(commit)
            await talk.settle()
            found = await talk._fetch(talk.topic, talk.topic_id, 0, True)
            assert found.last_stable_offset == found.high_watermark == (2 if commit else 4)


async def test_the_first_batch_waits_a_little_for_the_markers_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = MarkerWriter.run

    def later(self: MarkerWriter, *errand: Any) -> None:
        asyncio.get_running_loop().call_later(0.03, run, self, *errand)

    monkeypatch.setattr(MarkerWriter, "run", later)
    async with asking_node(tmp_path) as asker:
        talk = await Talk(asker, "orders").open()
        await talk.init()
        for _ in range(3):
            assert await talk.send(0, 1) == [ErrorCode.NONE] * 2
            assert not await talk.end()
            assert (await talk.describe()).transaction_state == "PrepareCommit"


async def test_the_first_batch_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MarkerWriter, "run", lambda *_: None)
    async with asking_node(tmp_path) as asker:
        talk = await Talk(asker, "orders").open()
        await talk.init()
        await talk.send(0)
        assert not await talk.end()
        assert await talk.send(0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert await talk.send(0, version=11) == [ErrorCode.NOT_ENOUGH_REPLICAS]


async def test_a_coordinator_that_another_one_fenced_stops_writing_markers(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    calls: list[int] = []
    monkeypatch.setattr(txn_markers, "append_here", lambda *_: calls.append(1) or fenced)
    await talk.init()
    await talk.send(0)
    assert not await talk.end()
    await asyncio.sleep(0.1)
    assert len(calls) == 1
    assert (await talk.describe()).transaction_state == "PrepareCommit"


async def test_a_coordinator_that_is_loaded_again_does_not_leave_old_errands_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, refusing = txn_markers.append_here, True

    def maybe(*marker: Any) -> Any:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if refusing else append(*marker)

    monkeypatch.setattr(txn_markers, "append_here", maybe)
    config = {"transaction.state.log.num.partitions": "1"}
    async with running_node(tmp_path, config) as node, asking(port_of(node)) as asker:
        talk = await Talk(asker, "orders").open()
        await talk.init()
        await talk.send(0)
        assert not await talk.end()
        coordinators = node.broker.coordinators
        for _ in range(3):
            coordinators.transactions.lose(0)
            coordinators.transactions.lead(node.broker.hosted[STATE_TOPIC, 0])
            await _loaded(talk)
        await asyncio.sleep(0.2)
        assert len(coordinators._markers._tasks) == 1
        refusing = False
        await talk.settle()
        kinds = [line.split()[1] for line in await talk.read(0, committed=False)]
        assert kinds in (["data"], ["data", "commit"])  # the marker may be in the next segment
        assert node.broker.hosted[talk.topic, 0].log.end == 2


async def test_a_topic_that_is_deleted_meanwhile_holds_nobody_up(talk: Talk) -> None:
    await talk.init()
    await talk.send(0)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=talk.topic)], timeout_ms=10_000)
    assert not (await talk.asker.ask(request, 6)).responses[0].error_code
    assert not await talk.end()
    await talk.settle()
    assert (await talk.describe()).transaction_state == "CompleteCommit"


async def test_a_transaction_over_more_partitions_than_are_marked_at_once(tmp_path: Path) -> None:
    count = 2 * MARKERS_AT_ONCE + 50
    async with asking_node(tmp_path) as asker:
        talk = await Talk(asker, "orders").open(count)
        await talk.init()
        assert set(await talk.send(*range(count))) == {ErrorCode.NONE}
        assert not await talk.end(False)
        await talk.settle()
        for index in (0, MARKERS_AT_ONCE, count - 1):
            found = await talk._fetch(talk.topic, talk.topic_id, index, True)
            assert found.last_stable_offset == 2


async def test_verification_can_be_switched_off_while_the_node_runs(talk: Talk) -> None:
    await talk.init()
    assert await talk.send(0, version=9) == [ErrorCode.INVALID_TXN_STATE]
    change = AlterableConfig(
        name="transaction.partition.verification.enable", config_operation=0, value="false"
    )
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="", configs=[change])]
    )
    assert not (await talk.asker.ask(request, 1)).responses[0].error_code
    assert await talk.send(0, version=9) == [ErrorCode.NONE]


async def test_a_second_producer_fences_the_first(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as one:
        first = await Talk(one, "orders").open()
        await first.init()
        await first.send(0)
        async with asking(port_of(node)) as another:
            second = Talk(another, "orders")
            second.topic, second.topic_id = first.topic, first.topic_id
            while await second.init() is ErrorCode.CONCURRENT_TRANSACTIONS:
                await second.settle()
            assert await second.send(0) == [ErrorCode.NONE]
            assert await first.send(0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
            assert await first.end() is ErrorCode.PRODUCER_FENCED
            assert not await second.end()
            await second.settle()
        found = await first._fetch(first.topic, first.topic_id, 0, True)
        assert found.last_stable_offset == 4
        assert [each.first_offset for each in found.aborted_transactions] == [0]


async def test_a_delayed_end_of_the_transaction_before_is_fenced(talk: Talk) -> None:
    await talk.init()
    await talk.send(0)
    late = EndTxnRequest(
        transactional_id=talk.name,
        producer_id=talk.producer_id,
        producer_epoch=talk.epoch,
        committed=True,
    )
    assert not await talk.end()
    await talk.settle()
    await talk.send(0)
    answer = await talk.asker.ask(late, 5)
    assert answer.error_code == ErrorCode.PRODUCER_FENCED
    assert (await talk.describe()).transaction_state == "Ongoing"


async def test_without_a_coordinator_here_clients_look_again(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        talk = Talk(asker, "orders")
        talk.topic_id = await asker.create(talk.topic, 1)
        assert await talk.init() is ErrorCode.NOT_COORDINATOR
        talk.producer_id, talk.epoch = 5, 0
        assert await talk.end() is ErrorCode.NOT_COORDINATOR
        assert await talk.send(0) == [ErrorCode.NOT_ENOUGH_REPLICAS]


async def test_a_coordinator_that_cannot_be_asked_now_makes_any_producer_try_again(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.init()
    said: list[ErrorCode] = []
    monkeypatch.setattr(txn_verification, "ask", lambda *_, **__: Verdict(said[-1]))
    for error in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ):
        said.append(error)
        for version in (10, 11, 12):
            assert await talk.send(0, version=version) == [ErrorCode.NOT_ENOUGH_REPLICAS]


async def test_one_request_cannot_speak_for_two_producers(talk: Talk) -> None:
    await talk.init()
    mine, other = first_batches(talk, 1)[0], first_batches(talk, 1)[0]
    item = other.topic_data[0].partition_data[0]
    item.index = 1
    item.records = batch(  # type: ignore[assignment]
        producer_id=talk.producer_id + 1, producer_epoch=0, base_sequence=0, transactional=True
    )
    mine.topic_data[0].partition_data.append(item)
    answer = await talk.asker.ask(mine, 12)
    errors = {each.error_code for each in answer.responses[0].partition_responses}
    assert errors == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
