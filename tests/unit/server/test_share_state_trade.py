"""What goes together to a share coordinator on another broker, and what its answers mean."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.coordination.delivery.effects import Held, State, StateBatch
from penstock.coordination.share.state import DONE, ShareKey, Summary, Told
from penstock.coordination.share.updating import Writing
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.protocol.generated import read_share_group_state as reading
from penstock.protocol.generated import read_share_group_state_summary as summarizing
from penstock.protocol.generated import write_share_group_state as writing
from penstock.server import share_persister_trade
from penstock.server.dispatch import FRAME_BYTES_MAX
from penstock.server.share_persister_trade import (
    Delete,
    Initialize,
    Inquiry,
    Question,
    Read,
    ShareTrade,
    Summarize,
    Write,
)
from tests.unit.server.asking import question

ORDERS, BILLS = b"o" * 16, b"b" * 16
BATCH = StateBatch(3, 5, State.AVAILABLE, 2, Millis(77))
WRITING = Write(Writing(4, 9, 2, 1, [BATCH]))


class Scene:
    """A trade with a broker that is never really asked."""

    def __init__(self) -> None:
        config = SimpleNamespace(get_int=lambda _: 1_000)
        broker: Any = SimpleNamespace(loop=asyncio.get_running_loop(), config=config)
        self.trade = ShareTrade(broker)

    def inquiry(
        self, question: Question, group: str = "g", topic: bytes = ORDERS, partition: int = 0
    ) -> Inquiry:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        return Inquiry(ShareKey(group, topic, partition), question, answer)

    def settle(self, inquiry: Inquiry, response: Any) -> Any:
        self.trade.settle([inquiry], response)
        return inquiry.answer.result()


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_one_request_is_about_one_group_and_one_kind_of_question(scene: Scene) -> None:
    items = [
        scene.inquiry(Read(1), partition=0),
        scene.inquiry(Read(1), group="another"),
        scene.inquiry(WRITING, partition=1),
        scene.inquiry(Read(2), partition=1),
        scene.inquiry(Read(3), topic=BILLS),
    ]
    request, taken = scene.trade.compose(items)
    asked = cast(reading.ReadShareGroupStateRequest, request)
    assert taken == [items[0], items[3], items[4]]
    assert asked.group_id == "g"
    told = [
        (topic.topic_id, it.partition, it.leader_epoch)
        for topic in asked.topics
        for it in topic.partitions
    ]
    assert told == [(ORDERS, 0, 1), (ORDERS, 1, 2), (BILLS, 0, 3)]


async def test_a_key_is_spoken_of_once_in_a_request(scene: Scene) -> None:
    items = [scene.inquiry(WRITING), scene.inquiry(WRITING), scene.inquiry(WRITING, partition=1)]
    _, taken = scene.trade.compose(items)
    assert taken == [items[0], items[2]]


async def test_a_request_has_a_bound(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_persister_trade, "KEYS_PER_REQUEST", 2)
    items = [scene.inquiry(Delete(), partition=at) for at in range(5)]
    assert scene.trade.compose(items)[1] == items[:2]


async def test_many_writes_go_in_frames_that_a_broker_takes(scene: Scene) -> None:
    apart = [
        StateBatch(at, at, State.AVAILABLE, 1 + at % 2, Millis(1 << 40)) for at in range(4_000)
    ]
    write = Write(Writing(4, 9, 2, 1, apart))
    items = [scene.inquiry(write, partition=at) for at in range(200)]
    request, taken = scene.trade.compose(items)
    assert 1 < len(taken) < 200
    assert len(question(request, 1)) < FRAME_BYTES_MAX
    huge = Write(Writing(4, 9, 2, 1, apart * 6))
    assert len(scene.trade.compose([scene.inquiry(huge), *items])[1]) == 1, "never none at all"


async def test_a_write_carries_all_that_was_said(scene: Scene) -> None:
    request, _ = scene.trade.compose([scene.inquiry(WRITING)])
    (topic,) = cast(writing.WriteShareGroupStateRequest, request).topics
    (item,) = topic.partitions
    assert (item.state_epoch, item.leader_epoch, item.start_offset) == (4, 9, 2)
    assert item.delivery_complete_count == 1
    (batch,) = item.state_batches
    told = batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
    assert (*told, batch.not_before) == BATCH


@pytest.mark.parametrize("question", [Initialize(1, 2), Read(1), WRITING, Delete(), Summarize()])
async def test_no_answer_means_that_nobody_knows(scene: Scene, question: Question) -> None:
    assert scene.settle(scene.inquiry(question), None) == Told(ErrorCode.NETWORK_EXCEPTION)


async def test_an_answer_that_leaves_a_key_out_is_none(scene: Scene) -> None:
    response = writing.WriteShareGroupStateResponse()
    assert scene.settle(scene.inquiry(WRITING), response) == Told(ErrorCode.NETWORK_EXCEPTION)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, 31_000])
async def test_errors_come_back_as_they_are(scene: Scene, code: int) -> None:
    result = writing.PartitionResult(partition=0, error_code=code, error_message="because")
    topic = writing.WriteStateResult(topic_id=ORDERS, partitions=[result])
    told = scene.settle(
        scene.inquiry(WRITING), writing.WriteShareGroupStateResponse(results=[topic])
    )
    known = code if isinstance(code, ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
    assert told == Told(known, "because")


@pytest.mark.parametrize("state", [State.AVAILABLE, 77])
async def test_what_was_read_is_told(scene: Scene, state: int) -> None:
    batch = reading.StateBatch(
        first_offset=3, last_offset=5, delivery_state=state, delivery_count=2, not_before=77
    )
    result = reading.PartitionResult(
        partition=0, state_epoch=4, start_offset=2, state_batches=[batch]
    )
    topic = reading.ReadStateResult(topic_id=ORDERS, partitions=[result])
    told = scene.settle(
        scene.inquiry(Read(1)), reading.ReadShareGroupStateResponse(results=[topic])
    )
    if state == State.AVAILABLE:
        assert told == Held(4, 2, (BATCH,))
    else:
        assert told.error is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_summaries_and_writes_are_told(scene: Scene) -> None:
    result = summarizing.PartitionResult(
        partition=0, state_epoch=1, leader_epoch=2, start_offset=3, delivery_complete_count=4
    )
    topic = summarizing.ReadStateSummaryResult(topic_id=ORDERS, partitions=[result])
    response = summarizing.ReadShareGroupStateSummaryResponse(results=[topic])
    assert scene.settle(scene.inquiry(Summarize()), response) == Summary(1, 2, 3, 4)
    written = writing.WriteStateResult(
        topic_id=ORDERS, partitions=[writing.PartitionResult(partition=0)]
    )
    answer = writing.WriteShareGroupStateResponse(results=[written])
    assert scene.settle(scene.inquiry(WRITING), answer) == DONE
