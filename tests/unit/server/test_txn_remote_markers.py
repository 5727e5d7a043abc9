"""What a coordinator makes of the answers of other brokers to its markers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.coordination.txn.ending import Markers
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.end_txn import EndTxnResponse
from penstock.server.internal_topics import TRANSACTIONS_TOPIC
from penstock.server.txn_markers import Marker, MarkerWriter

HERE, THERE, YONDER = 1, 2, 3
ERRAND = Markers("orders", 7, 4, True, (("t", 0), ("t", 1)), 2)
PASSING = [
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


class Scene:
    """A coordinator here, in epoch 5, whose transaction has two partitions that others lead."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {0: THERE, 1: YONDER}
        self.sent: list[tuple[int, int, Marker]] = []
        self.answers: dict[int, list[ErrorCode | asyncio.Future[ErrorCode]]] = {0: [], 1: []}
        self.completed = 0
        self.completions: list[ErrorCode] = []
        self.shard: Any = object()
        self.broker: Any = SimpleNamespace(
            loop=asyncio.get_running_loop(),
            node_id=HERE,
            hosted={(TRANSACTIONS_TOPIC, 9): SimpleNamespace(leader_epoch=5)},
            coordinators=SimpleNamespace(
                transactions=SimpleNamespace(shard=lambda _: self.shard, call_shard=self._complete)
            ),
        )
        self.tell()
        self.writer = MarkerWriter(cast(Any, self.broker), self._send)

    def tell(self) -> None:
        """Have the metadata say who leads; nobody is asked about a topic without leaders."""
        partitions = {index: SimpleNamespace(leader=it) for index, it in self.leaders.items()}
        topics = {"t": SimpleNamespace(partitions=partitions)} if partitions else {}
        self.broker.image = SimpleNamespace(topics=SimpleNamespace(by_name=topics))

    def _send(
        self, node_id: int, topic: str, index: int, marker: Marker
    ) -> asyncio.Future[ErrorCode]:
        assert topic == "t"
        self.sent.append((node_id, index, marker))
        answer = self.answers[index].pop(0) if self.answers[index] else ErrorCode.NONE
        if isinstance(answer, asyncio.Future):
            return answer
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        future.set_result(answer)
        return future

    def _complete(self, shard: int, step: Any, refuse: Any) -> EndTxnResponse:
        assert shard == 9 and step and refuse
        self.completed += 1
        error = self.completions.pop(0) if self.completions else ErrorCode.NONE
        return EndTxnResponse(error_code=error)

    @property
    def indexes(self) -> list[int]:
        return [index for _, index, _ in self.sent]

    async def run(self) -> None:
        self.writer.run(9, ERRAND)
        async with asyncio.timeout(20):
            while self.writer._tasks:
                await asyncio.sleep(0.005)


async def test_both_brokers_are_told_and_then_the_transaction_is_complete() -> None:
    scene = Scene()
    await scene.run()
    marker = Marker(7, 4, 5, True, 2)
    assert scene.sent == [(THERE, 0, marker), (YONDER, 1, marker)]
    assert scene.completed == 1


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.name)
async def test_what_may_pass_is_tried_again_for_that_partition_alone(error: ErrorCode) -> None:
    scene = Scene()
    scene.answers[1] = [error, error]
    await scene.run()
    assert scene.indexes == [0, 1, 1, 1]
    assert scene.completed == 1


@pytest.mark.parametrize(
    "error",
    [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED],
    ids=lambda error: error.name,
)
async def test_a_fenced_coordinator_stops_and_completes_nothing(error: ErrorCode) -> None:
    scene = Scene()
    scene.answers[0] = [error]
    await scene.run()
    assert scene.indexes == [0, 1]
    assert scene.completed == 0


async def test_a_partition_that_can_hold_no_transaction_needs_no_marker() -> None:
    scene = Scene()
    scene.answers[0] = [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]
    await scene.run()
    assert (scene.indexes, scene.completed) == ([0, 1], 1)


async def test_a_marker_follows_its_partition_to_the_new_leader() -> None:
    scene = Scene()
    scene.leaders[0] = -1
    scene.tell()
    scene.answers[1] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    running = asyncio.ensure_future(scene.run())
    await asyncio.sleep(0)
    assert [each[:2] for each in scene.sent] == [(YONDER, 1)]
    scene.leaders = {0: YONDER, 1: THERE}
    scene.tell()
    await running
    assert {each[:2] for each in scene.sent[1:]} == {(YONDER, 0), (THERE, 1)}
    assert scene.completed == 1


async def test_a_deleted_topic_is_not_waited_for() -> None:
    scene = Scene()
    scene.answers[0] = scene.answers[1] = [ErrorCode.NETWORK_EXCEPTION] * 2
    running = asyncio.ensure_future(scene.run())
    await asyncio.sleep(0)
    scene.leaders = {}
    scene.tell()
    await running
    assert scene.completed == 1


async def test_one_partition_that_takes_long_does_not_hold_up_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.server.txn_markers.ANSWERS_SECONDS", 0.01)
    scene = Scene()
    slow: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    scene.answers = {0: [slow], 1: [ErrorCode.NOT_LEADER_OR_FOLLOWER]}
    running = asyncio.ensure_future(scene.run())
    await asyncio.sleep(0.1)
    assert scene.indexes == [0, 1, 1], "tried again, and the slow one not sent twice"
    assert scene.completed == 0
    slow.set_result(ErrorCode.NONE)
    await running
    assert (scene.indexes, scene.completed) == ([0, 1, 1], 1)


async def test_a_shard_that_is_lost_meanwhile_sends_no_more() -> None:
    scene = Scene()
    scene.answers[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100
    running = asyncio.ensure_future(scene.run())
    await asyncio.sleep(0.01)
    scene.shard = object()
    await running
    assert scene.completed == 0
    assert 0 < len(scene.sent) < 50


async def test_a_completion_that_the_log_refuses_is_tried_again_without_more_markers() -> None:
    scene = Scene()
    scene.completions = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    await scene.run()
    assert (scene.indexes, scene.completed) == ([0, 1], 3)
