"""The short way of OffsetCommit gives the answers of the long one, and writes the same records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.net.connection import CloseConnection
from penstock.protocol.generated.find_coordinator import FindCoordinatorRequest
from penstock.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.security.principal import Principal
from penstock.server.dispatch import Dispatcher
from penstock.server.gate import GROUPS_MAX, Gate
from penstock.server.internal_topics import GROUPS_TOPIC
from penstock.server.plain_commit import VERSIONS, serve_plain_commit
from tests.unit.server.asking import asking, port_of, question, running_node

PARTITIONS = 3
TOPICS = ("one", "two")
ONE_SHARD = {"offsets.topic.num.partitions": "1"}


class Client:
    """Stands in for a connection where nothing is sent."""

    listener_name = "PLAINTEXT"
    peer = ("127.0.0.1", 1)
    last_active = 0.0
    more_follow = False

    def __init__(self, gate: Gate | None = None) -> None:
        self.gate = gate


class Scene:
    """A node that is asked the same thing twice, the short way and the long one."""

    def __init__(self, node: Node, ids: dict[str, bytes]) -> None:
        self.node = node
        self.ids = ids
        self.log = node.broker.hosted[GROUPS_TOPIC, 0].log
        service = node._listeners.for_clients[0].service
        assert isinstance(service, Dispatcher)
        self._long = Dispatcher(service._broker, service._handlers)
        self._long._produces = False

    def request(self, *topics: OffsetCommitRequestTopic, **more: Any) -> OffsetCommitRequest:
        return OffsetCommitRequest(**{"group_id": "group", **more}, topics=list(topics))

    def topic(self, name: str, *indexes: int, **more: Any) -> OffsetCommitRequestTopic:
        return OffsetCommitRequestTopic(
            name=name,
            topic_id=self.ids.get(name, b"x" * 16),
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=each,
                    **{"committed_offset": 7, "committed_metadata": "", **more},
                )
                for each in indexes
            ],
        )

    def short(self, frame: bytes, client: Client | None = None) -> Any:
        view = memoryview(bytearray(frame))
        return serve_plain_commit(self.node.broker, client or Client(), view)  # type: ignore[arg-type]

    async def long(self, frame: bytes) -> Any:
        try:
            reply: Any = self._long.serve(Client(), memoryview(bytearray(frame)))  # type: ignore[arg-type]
            return await reply if isawaitable(reply) else reply
        except CloseConnection as closed:
            return str(closed)

    def records_since(self, end: int) -> list[bytes]:
        """What was appended, without the times at which it was."""
        return [
            bytes(data).replace(head.base_timestamp.to_bytes(8, "big"), bytes(8))[21:]
            for head, data in self.log.batches(end)
        ]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with running_node(tmp_path, ONE_SHARD) as node, asking(port_of(node)) as asker:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
        while (await asker.ask(find, 4)).coordinators[0].error_code:
            await asyncio.sleep(0.01)
        ids = {name: await asker.create(name, PARTITIONS) for name in TOPICS}
        yield Scene(node, ids)


def _frame(request: OffsetCommitRequest, version: int) -> bytes:
    if version < 10:
        for topic in request.topics:
            topic.topic_id = bytes(16)
    else:
        for topic in request.topics:
            topic.name = ""
    return question(request, version)[4:]


def _random_request(scene: Scene, chance: random.Random) -> OffsetCommitRequest:
    names = chance.choices((*TOPICS, "nobody"), (9, 9, 1), k=chance.choice((0, 1, 1, 1, 1, 2)))
    topics = []
    for name in names:
        indexes = chance.choices(
            range(PARTITIONS + 1), (9, 9, 9, 1), k=chance.choice((0, 1, 1, 1, 2, 3))
        )
        metadata = chance.choice((*[""] * 8, None, None, "said", "long" * 2000))
        offset = chance.choice((0, 5, 2**40, -1))
        epoch = chance.choice((-1, 3))
        topics.append(
            scene.topic(
                name,
                *indexes,
                committed_metadata=metadata,
                committed_offset=offset,
                committed_leader_epoch=epoch,
            )
        )
    return scene.request(
        *topics,
        group_id=chance.choice(("group", "group", "other", "group", "", "g" * 200)),
        member_id=chance.choice(("", "", "nobody")),
        generation_id_or_member_epoch=chance.choice((-1, -1, -1, 4)),
        group_instance_id=chance.choice((*[None] * 9, "instance")),
    )


@pytest.mark.parametrize("seed", range(4))
async def test_both_ways_answer_alike_and_write_alike(scene: Scene, seed: int) -> None:
    chance = random.Random(seed)
    taken = 0
    for _ in range(200):
        request = _random_request(scene, chance)
        frame = bytearray(_frame(request, chance.choice((7, 8, 8, 9, 9, 9, 10, 10))))
        if chance.random() < 0.05:
            frame[chance.randrange(2, len(frame))] ^= 1 << chance.randrange(8)
        ends = scene.log.end
        short = scene.short(bytes(frame))
        written = scene.records_since(ends)
        if short is None:
            assert not written, "what is left to the long way is left untouched"
            continue
        taken += 1
        ends = scene.log.end
        assert bytes(short) == bytes(await scene.long(bytes(frame))), request
        assert written == scene.records_since(ends)
    assert taken > 40


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_plain_commit_goes_the_short_way(scene: Scene, version: int) -> None:
    request = scene.request(scene.topic("one", 0, 2), scene.topic("two", 1))
    reply = scene.short(_frame(request, version))
    assert isinstance(reply, bytearray)
    response, end = OffsetCommitResponse.read(bytes(reply), version, 9)
    assert end == len(reply)
    places = [(p.partition_index, p.error_code) for t in response.topics for p in t.partitions]
    assert places == [(0, 0), (2, 0), (1, 0)]
    assert scene.log.end == 3


async def test_a_commit_that_is_cut_anywhere_is_left_to_the_long_way(scene: Scene) -> None:
    frame = _frame(scene.request(scene.topic("one", 0, 1), member_id="m"), 9)
    for size in range(2, len(frame)):
        assert scene.short(frame[:size]) is None
    assert scene.short(frame + b"\x00") is None
    assert scene.log.end == 0


async def test_a_commit_waits_until_it_is_committed(scene: Scene) -> None:
    partition = scene.node.broker.hosted[GROUPS_TOPIC, 0]
    partition._replicated = partition.log.end  # as if a follower were behind
    reply = scene.short(_frame(scene.request(scene.topic("one", 0)), 9))
    assert isinstance(reply, asyncio.Future) and not reply.done()
    partition._replicated = partition.log.end
    partition._advance(0)
    await asyncio.sleep(0)
    assert isinstance(await reply, bytearray)


class Rules:
    """An authorizer that counts what it is asked."""

    def __init__(self, *allowed: tuple[ResourceType, str]) -> None:
        self.allowed = set(allowed)
        self.asked = 0

    def memory(self) -> set[str]:
        return set()

    def allows(self, _who: Any, _host: Any, operation: Any, kind: Any, name: str) -> bool:
        self.asked += 1
        return operation == Operation.READ and (kind, name) in self.allowed


GROUP, TOPIC = (ResourceType.GROUP, "group"), (ResourceType.TOPIC, "one")


@pytest.mark.parametrize("rights", [(GROUP,), (TOPIC,), ()])
async def test_who_lacks_a_right_goes_the_long_way(scene: Scene, rights: Any) -> None:
    gate = Gate("127.0.0.1", Rules(*rights))  # type: ignore[arg-type]
    frame = _frame(scene.request(scene.topic("one", 0)), 9)
    assert scene.short(frame, Client(gate)) is None
    assert scene.log.end == 0


async def test_rights_are_asked_once_and_forgotten_with_who_had_them(scene: Scene) -> None:
    rules = Rules(GROUP, TOPIC)
    gate = Gate("127.0.0.1", rules)  # type: ignore[arg-type]
    frame = _frame(scene.request(scene.topic("one", 0)), 9)
    for _ in range(3):
        assert scene.short(frame, Client(gate)) is not None
    assert rules.asked == 2
    rules.allowed.clear()
    gate.let_in(Principal("User", "somebody"))
    assert scene.short(frame, Client(gate)) is None


async def test_who_has_to_prove_again_who_they_are_goes_the_long_way(scene: Scene) -> None:
    gate = Gate("127.0.0.1", None)
    gate.let_in(Principal("User", "somebody"), until=5.0)
    client = Client(gate)
    frame = _frame(scene.request(scene.topic("one", 0)), 9)
    assert scene.short(frame, client) is not None
    client.last_active = 5.0
    assert scene.short(frame, client) is None


def test_a_connection_remembers_a_bounded_number_of_groups() -> None:
    gate = Gate("127.0.0.1", None)
    for number in range(3 * GROUPS_MAX):
        assert gate.may_read_group(f"group-{number}")
    assert len(gate._groups) <= GROUPS_MAX
