"""The short way of Produce gives the answers of the long one, byte for byte."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from inspect import isawaitable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.net.connection import CloseConnection
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.registry import API
from penstock.replica.partition import Partition
from penstock.server.dispatch import Dispatcher
from penstock.server.plain_produce import RUN_BATCHES_MAX, VERSIONS, serve_plain
from penstock.storage.log_config import LogConfig
from tests.unit.server.asking import NOON, asking, batch, port_of, question, running_node

PARTITIONS = 3


class Client:
    """Stands in for a connection where nothing is sent."""

    listener_name = "PLAINTEXT"
    peer = ("127.0.0.1", 1)
    gate = None
    more_follow = False


class Pair:
    """Two nodes with the same topics; one answers Produce the long way alone."""

    def __init__(self, short: Node, long: Node, ids: dict[str, tuple[bytes, bytes]]) -> None:
        self.short, self.long = (_dispatcher(node) for node in (short, long))
        self.long._produces = False
        self.nodes = (short, long)
        self.ids = ids

    async def answers(self, make: Any, version: int) -> tuple[Any, Any]:
        """What both say; topic ids differ between the nodes and are left out."""
        return (
            await self._answer(self.short, make(0), version),
            await self._answer(self.long, make(1), version),
        )

    async def answers_of_long(self, make: Any, version: int) -> Any:
        return await self._answer(self.long, make(1), version)

    async def answers_together(self, made: list[Any]) -> tuple[list[Any], int]:
        """As a connection does it: runs where they are served, and one by one what is not; with
        how many were served in runs."""
        frames = [memoryview(bytearray(question(make(0), version)[4:])) for make, version in made]
        versions = [version for _, version in made]
        answers: list[Any] = []
        in_runs = 0
        while len(answers) < len(frames):
            at = len(answers)
            replies: list[Any] = list(self.short.serve_run(Client(), frames[at:]))  # type: ignore[arg-type]
            in_runs += len(replies)
            if not replies:
                answers.append(await self._answer(self.short, made[at][0](0), versions[at]))
            for reply, version in zip(replies, versions[at:], strict=False):
                done = await reply if isawaitable(reply) else reply
                answers.append(_without_ids(bytes(done), version))
        return answers, in_runs

    async def _answer(self, by: Dispatcher, request: ProduceRequest, version: int) -> Any:
        frame = bytearray(question(request, version)[4:])
        try:
            reply: Any = by.serve(Client(), memoryview(frame))  # type: ignore[arg-type]
            if isawaitable(reply):
                reply = await reply
        except CloseConnection as closed:
            return str(closed)
        return _without_ids(bytes(reply), version) if reply is not None else None


def _dispatcher(node: Node) -> Dispatcher:
    service = node._listeners.for_clients[0].service
    assert isinstance(service, Dispatcher)
    return service


def _without_ids(frame: bytes, version: int) -> Any:
    size, correlation_id = struct.unpack_from(">ii", frame)
    assert size == len(frame) - 4
    body_at = 8 + API[0].response_header_version(version)
    response, end = API[0].response_class.read(frame, version, body_at)
    assert end == len(frame)
    for topic in response.responses:
        topic.topic_id = b""
    return correlation_id, response


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with (
        running_node(tmp_path / "a") as short,
        running_node(tmp_path / "b") as long,
    ):
        ids: dict[str, list[bytes]] = {}
        for node in (short, long):
            async with asking(port_of(node)) as asker:
                for name, configs in TOPICS.items():
                    ids.setdefault(name, []).append(await asker.create(name, PARTITIONS, configs))
            for index in range(PARTITIONS):
                node.broker.hosted["strict", index].under_min = True  # as if replicas were missing
        yield Pair(short, long, {name: (made[0], made[1]) for name, made in ids.items()})


TOPICS = {
    "plain": {},
    "synced": {"flush.messages": "1"},
    "strict": {},
    "small": {"max.message.bytes": "200"},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}


class Requests:
    """Random requests around the plain shape, the same for both nodes."""

    def __init__(self, seed: int, ids: dict[str, tuple[bytes, bytes]]) -> None:
        self._chance = random.Random(seed)
        self._ids = ids

    def next(self) -> tuple[Any, int]:
        """How to make the request for node 0 or 1, and its version."""
        chance = self._chance
        version = chance.choice((8, 9, 10, 12, 13))
        acks = chance.choice((-1, -1, -1, 1, 1, 0, 2))
        names = chance.sample(sorted(TOPICS), chance.choice((1, 1, 1, 1, 2)))
        unknown = chance.random() < 0.05
        content = {
            name: [
                (chance.choice((0, 1, 2, 2, 7)), self._batch())
                for _ in range(chance.choice((1, 1, 2, 3)))
            ]
            for name in names
        }
        transactional_id = "somebody" if chance.random() < 0.05 else None

        def make(node: int) -> ProduceRequest:
            return ProduceRequest(
                transactional_id=transactional_id,
                acks=acks,
                timeout_ms=5000,
                topic_data=[
                    TopicProduceData(
                        name="nobody" if unknown else name,
                        topic_id=bytes(16) if unknown else self._ids[name][node],
                        partition_data=[
                            PartitionProduceData(index=index, records=data and memoryview(data))
                            for index, data in parts
                        ],
                    )
                    for name, parts in content.items()
                ],
            )

        return make, version

    def _batch(self) -> bytearray | None:
        chance = self._chance
        if chance.random() < 0.03:
            return None
        options: dict[str, Any] = {}
        if chance.random() < 0.5:
            options = {
                "producer_id": chance.choice((1, 2)),
                "producer_epoch": chance.choice((0, 0, 1)),
                "base_sequence": chance.choice((0, 1, 2)),
            }
        made = bytearray(batch(chance.choice((1, 2, 9)), **options))
        if chance.random() < 0.1:
            made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.05:
            del made[chance.randrange(len(made)) :]
        return made


@pytest.mark.parametrize("seed", range(6))
async def test_both_ways_answer_alike_and_store_alike(pair: Pair, seed: int) -> None:
    requests = Requests(seed, pair.ids)
    for _ in range(150):
        make, version = requests.next()
        short, long = await pair.answers(make, version)
        _forget_clocks(short, long)
        assert short == long, make(0)
    ends = [{key: each.log.end for key, each in node.broker.hosted.items()} for node in pair.nodes]
    assert ends[0] == ends[1]
    assert sum(ends[0].values()) > 100


@pytest.mark.parametrize("seed", range(6))
async def test_requests_that_come_together_are_answered_and_stored_as_one_by_one(
    pair: Pair, seed: int
) -> None:
    chance = random.Random(seed)
    requests = Requests(seed, pair.ids)
    served = 0
    for _ in range(100):
        made = [requests.next() for _ in range(chance.choice((3, 9, 24)))]
        made = [(make, version) for make, version in made if make(0).acks]  # else they close
        expected = [(await pair.answers_of_long(make, version)) for make, version in made]
        answers, count = await pair.answers_together(made)
        _forget_clocks(*expected, *answers)
        assert answers == expected
        served += count
    ends = [{key: each.log.end for key, each in node.broker.hosted.items()} for node in pair.nodes]
    assert ends[0] == ends[1]
    assert served > 10


def _forget_clocks(*answers: Any) -> None:
    """Times of append are those of the nodes' clocks."""
    for answer in answers:
        if isinstance(answer, tuple):
            for topic in answer[1].responses:
                for part in topic.partition_responses:
                    part.log_append_time_ms = min(part.log_append_time_ms, 0)


def _refuse_to_answer(*_: object) -> Any:
    raise AssertionError("everything could be answered at once")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_plain_request_goes_the_short_way(pair: Pair, version: int) -> None:
    request = ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(
                name="plain",
                topic_id=pair.ids["plain"][0],
                partition_data=[
                    PartitionProduceData(index=index, records=memoryview(batch(3)))
                    for index in range(PARTITIONS)
                ],
            )
        ],
    )
    frame = memoryview(bytearray(question(request, version)[4:]))
    reply = serve_plain(pair.nodes[0].broker, Client(), frame, _refuse_to_answer)  # type: ignore[arg-type]
    assert isinstance(reply, bytearray)
    _, response = _without_ids(bytes(reply), version)
    parts = response.responses[0].partition_responses
    assert [(part.index, part.error_code, part.base_offset) for part in parts] == [
        (index, ErrorCode.NONE, 0) for index in range(PARTITIONS)
    ]


async def test_a_partition_that_goes_offline_meanwhile_keeps_nobody_waiting(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Partition.append

    def append_and_fail(self: Partition, *arguments: Any) -> Any:
        result = append(self, *arguments)
        self.go_offline()
        return result

    monkeypatch.setattr(Partition, "append", append_and_fail)

    def make(node: int) -> ProduceRequest:
        data = [PartitionProduceData(index=0, records=memoryview(bytearray(batch(3))))]
        topic = TopicProduceData(name="synced", topic_id=pair.ids["synced"][node])
        topic.partition_data = data
        return ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])

    async with asyncio.timeout(10):
        answers = await pair.answers(make, 13)
    for _, response in answers:
        (part,) = response.responses[0].partition_responses
        assert (part.error_code, part.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


@pytest.mark.parametrize(("topic", "together"), [("plain", 3), ("compacted", 0), ("stamped", 0)])
async def test_what_has_to_be_looked_into_is_not_served_together(
    pair: Pair, topic: str, together: int
) -> None:
    assert len(_runs(pair, topic, requests=3, batches=1)) == together


async def test_a_run_ends_before_a_batch_that_is_looked_into_for_its_timestamp(pair: Pair) -> None:
    frames = []
    for seconds in (0, 0, LogConfig().timestamp_after_max_ms // 1000, 0):
        data = PartitionProduceData(index=0, records=memoryview(batch(first=seconds)))
        content = TopicProduceData(
            name="plain", topic_id=pair.ids["plain"][0], partition_data=[data]
        )
        frame = question(ProduceRequest(acks=-1, topic_data=[content]), 13)[4:]
        frames.append(memoryview(bytearray(frame)))
    broker = pair.nodes[0].broker
    for now, served in ((NOON, 4), (NOON - 1, 2)):
        with mock.patch.object(broker, "clock", mock.Mock(now=lambda now=now: now)):
            assert len(pair.short.serve_run(Client(), frames)) == served  # type: ignore[arg-type]


async def test_no_more_is_stored_together_than_others_can_wait_for(pair: Pair) -> None:
    assert len(_runs(pair, "plain", requests=20, batches=100)) == RUN_BATCHES_MAX // 100


def _runs(pair: Pair, topic: str, requests: int, batches: int) -> list[Any]:
    """The replies to as many alike requests as are served together."""
    data = [
        PartitionProduceData(index=0, records=memoryview(bytearray(batch())))
        for _ in range(batches)
    ]
    content = TopicProduceData(name=topic, topic_id=pair.ids[topic][0], partition_data=data)
    frame = question(ProduceRequest(acks=-1, topic_data=[content]), 13)[4:]
    frames = [memoryview(bytearray(frame)) for _ in range(requests)]
    return list(pair.short.serve_run(Client(), frames))  # type: ignore[arg-type]


async def test_a_request_that_is_cut_anywhere_is_left_to_the_long_way(pair: Pair) -> None:
    request = ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(
                name="plain",
                partition_data=[PartitionProduceData(index=0, records=memoryview(batch(3)))],
            )
        ],
    )
    frame = question(request, 9)[4:]
    for size in range(2, len(frame)):
        cut = memoryview(bytearray(frame[:size]))
        assert (
            serve_plain(pair.nodes[0].broker, Client(), cut, _refuse_to_answer) is None  # type: ignore[arg-type]
        )
    assert pair.nodes[0].broker.hosted["plain", 0].log.end == 0
