"""Rights where records go in and out: on both ways of Produce, in sessions, while a fetch waits."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.metadata.acls import Acl
from penstock.model.operations import Operation
from penstock.model.resources import Permission
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.fetch import FetchRequest
from penstock.security.principal import Principal
from penstock.server.gate import Gate
from penstock.server.plain_produce import serve_plain
from penstock.server.reconcile import Reconciler
from tests.unit.server import rights_questions as q
from tests.unit.server.asking import batch, question
from tests.unit.server.rights_scene import (
    FEW,
    Guarded,
    cluster,
    errors,
    guarded_node,
    topic,
    transaction,
    until,
)

NO_TOPIC = "TOPIC_AUTHORIZATION_FAILED"
OWN, FOLLOWER = 1, 2
READ = topic("mine", Operation.READ)
WRITE = topic("mine", Operation.WRITE)
SHORT, LONG = 9, 8
"""Versions of Produce that go the short way, and the long one."""


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarded_node(tmp_path) as made:
        await made.create("mine", "seen", "theirs")
        yield made


def end(node: Guarded, name: str = "mine", index: int = 0) -> int:
    return int(node.broker.hosted[name, index].log.end)


async def produced(node: Guarded, version: int = SHORT, name: str = "mine") -> int:
    answer = await node.asker.produce(name, batch(1), version=version)
    return answer.error_code


# -- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [LONG, SHORT])
async def test_a_right_that_is_withdrawn_stops_the_next_batch(node: Guarded, version: int) -> None:
    await node.may(WRITE)
    assert [await produced(node, version) for _ in range(3)] == [0, 0, 0]
    await node.may(READ)
    assert await produced(node, version) == 29
    assert end(node) == 3
    await node.may(WRITE)
    assert await produced(node, version) == 0
    await node.may(WRITE, _denied(Operation.WRITE))
    assert await produced(node, version) == 29
    assert end(node) == 4


def _denied(operation: Operation) -> list[Acl]:
    return topic("mine", operation, permission=Permission.DENY)


@pytest.mark.parametrize("version", [LONG, SHORT])
async def test_who_has_to_prove_again_who_they_are_writes_nothing(
    node: Guarded, version: int
) -> None:
    await node.may(WRITE)
    assert await produced(node, version) == 0
    for listener in node.node._listeners.for_clients:
        for connection in listener.connections:
            connection.gate.expires_at = 0.0
    with pytest.raises(asyncio.IncompleteReadError):
        await produced(node, version)
    assert end(node) == 1


class Client:
    """Stands in for a connection where nothing is sent."""

    listener_name = "PLAINTEXT"
    peer = ("127.0.0.1", 1)
    last_active = 10.0

    def __init__(self, node: Guarded) -> None:
        self.gate = Gate("127.0.0.1", node.broker.authorizer)


async def test_the_short_way_of_produce_is_only_for_those_who_may(node: Guarded) -> None:
    client = Client(node)
    request: Any = q.producing(names=("mine",))(SHORT, {})

    def is_short() -> bool:
        frame = memoryview(bytearray(question(request, SHORT)[4:]))
        reply = serve_plain(node.broker, client, frame, _never)  # type: ignore[arg-type]
        return reply is not None

    await node.may(WRITE)
    assert is_short() and end(node) == 1
    client.gate.expires_at = 10.0  # as late as it is
    assert not is_short()
    client.gate.expires_at = 10.1
    assert is_short() and end(node) == 2
    await node.may(READ)
    assert not is_short()
    await node.may(WRITE)
    client.gate.let_in(Principal("somebody-else"))
    assert not is_short() and end(node) == 2


def _never(*_: object) -> Any:
    raise AssertionError("all of it should be answered at once")


async def test_a_right_to_one_topic_is_none_to_another(node: Guarded) -> None:
    await node.may(WRITE)
    assert await produced(node) == 0
    assert await produced(node, name="theirs") == 29
    assert (end(node), end(node, "theirs")) == (1, 0)


async def test_a_batch_of_a_transaction_needs_a_right_to_its_id(node: Guarded) -> None:
    options: dict[str, Any] = {
        "producer_id": 4711,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }
    await node.may(FEW)
    for version in (LONG, SHORT, 13):
        answer = await node.ask(q.producing("t-theirs", **options), version)
        name = "topic_id" if version == 13 else "name"
        said = set(errors(answer, "responses", name).values())
        assert said == {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
    plain = await node.ask(q.producing("t-theirs"), SHORT)  # an id without a transaction
    assert errors(plain, "responses")["mine"] == "NONE"
    with pytest.raises(asyncio.IncompleteReadError):
        await node.ask(q.producing("t-theirs", acks=0, **options), SHORT)
    assert end(node) == 1


async def test_a_refused_write_without_an_answer_ends_the_connection(node: Guarded) -> None:
    await node.may(FEW)
    with pytest.raises(asyncio.IncompleteReadError):
        await node.ask(q.producing(acks=0), SHORT)
    assert end(node, "theirs") == 0


async def test_what_was_refused_is_told_once_and_what_is_left_out_is_not(
    node: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    await node.may(WRITE)
    with caplog.at_level(logging.INFO, "penstock.audit"):
        for _ in range(3):
            await produced(node, name="theirs")
        await node.ask(q.fetching(topics=("mine",)), 12)
        await node.ask(q.fetching(FOLLOWER, topics=("mine",)), 12)
        await node.ask(q.asking_metadata(None), 9)  # shown less
        await node.ask(q.listing_groups, 4)
    lines = [json.loads(each.message) for each in caplog.records if each.name == "penstock.audit"]
    assert [(each["operation"], each["resource"]) for each in lines] == [
        ("WRITE", "TOPIC:theirs"),
        ("READ", "TOPIC:mine"),
        ("CLUSTER_ACTION", "CLUSTER:kafka-cluster"),
        ("DESCRIBE", "CLUSTER:kafka-cluster"),  # whose rights it asked for
    ]
    assert {each["principal"] for each in lines} == {"User:ANONYMOUS"}


# -- reading --------------------------------------------------------------------------------------


def fetch(topics: list[str], ids: dict[str, bytes], **options: Any) -> FetchRequest:
    made = q.fetching(topics=tuple(topics), **options)(13, ids)
    assert isinstance(made, FetchRequest)
    return made


def said(answer: Any, ids: dict[str, bytes]) -> dict[str, str]:
    names = {topic_id: name for name, topic_id in ids.items()}
    told = errors(answer, "responses", "topic_id")
    return {names[topic_id]: error for topic_id, error in told.items()}


async def test_a_session_keeps_partitions_and_not_rights(node: Guarded) -> None:
    await produced(node)
    await produced(node, name="seen")
    opened = await node.ask(fetch(["mine", "seen"], node.ids, session_epoch=0), 13)
    assert said(opened, node.ids) == {"mine": "NONE", "seen": "NONE"} and opened.session_id

    async def go_on(epoch: int) -> dict[str, str]:
        request = fetch([], node.ids, session_id=opened.session_id, session_epoch=epoch)
        return said(await node.ask(request, 13), node.ids)

    await node.may(topic("seen", Operation.READ))
    assert (await go_on(1))["mine"] == NO_TOPIC
    await node.may(topic("mine", Operation.READ))
    told = await go_on(2)
    assert (told["mine"], told["seen"]) == ("NONE", NO_TOPIC)


async def test_a_session_of_another_does_not_lend_its_rights(node: Guarded) -> None:
    await produced(node)
    opened = await node.ask(fetch(["mine"], node.ids, session_epoch=0), 13)
    await node.may(READ)
    await node.may(topic("theirs", Operation.READ))
    request = fetch([], node.ids, session_id=opened.session_id, session_epoch=1)
    answer = await node.ask(request, 13)
    assert said(answer, node.ids) == {"mine": NO_TOPIC}
    assert not any(part.records for each in answer.responses for part in each.partitions)


async def test_a_right_that_is_withdrawn_while_a_fetch_waits_is_gone_when_it_ends(
    node: Guarded,
) -> None:
    request = fetch(["mine"], node.ids, min_bytes=1, max_wait_ms=10_000)
    waiting = asyncio.create_task(node.ask(request, 13))
    await until(lambda: node.broker.parked_fetches == 1)
    await node.may(WRITE)
    node.broker.hosted["mine", 0].append(memoryview(bytearray(batch(1))), 0)
    node.broker.hosted["mine", 0].release_readers()
    answer = await waiting
    assert said(answer, node.ids) == {"mine": NO_TOPIC}
    assert not any(part.records for each in answer.responses for part in each.partitions)


# -- those who speak as followers -----------------------------------------------------------------


def followed(node: Guarded) -> Any:
    """The partition, as if it had a follower that is in sync."""
    partition = node.broker.hosted["mine", 0]
    partition.lead(1, (OWN, FOLLOWER), (OWN, FOLLOWER), partition_epoch=10)
    return partition


@pytest.mark.parametrize("version", [12, 17])
async def test_a_forged_followers_fetch_moves_nothing_and_reads_nothing(
    node: Guarded, version: int
) -> None:
    partition = followed(node)
    await node.asker.produce("mine", batch(3), acks=1)
    await node.may(READ, WRITE, topic("theirs", Operation.ALL))
    forged = q.fetching(replica_id=FOLLOWER, topics=("mine", "theirs"), session_epoch=0)
    request: Any = forged(version, node.ids)
    request.topics[0].partitions[0].fetch_offset = 3
    answer = await node.asker.ask(request, version)
    assert {part.error_code for each in answer.responses for part in each.partitions} == {29}
    assert not any(part.records for each in answer.responses for part in each.partitions)
    assert not answer.session_id and not len(node.broker.fetch_sessions)
    assert partition.high_watermark == 0 and partition.isr == (OWN, FOLLOWER)


async def test_a_follower_of_the_cluster_reads_what_is_not_committed(node: Guarded) -> None:
    partition = followed(node)
    await node.asker.produce("mine", batch(3), acks=1)
    await node.may(cluster(Operation.CLUSTER_ACTION))
    request: Any = q.fetching(replica_id=FOLLOWER, topics=("mine",))(13, node.ids)
    del request.topics[0].partitions[1]
    request.topics[0].partitions[0].current_leader_epoch = 1
    answer = await node.asker.ask(request, 13)
    assert answer.responses[0].partitions[0].records
    request.topics[0].partitions[0].fetch_offset = 3
    await node.asker.ask(request, 13)
    assert partition.high_watermark == 3


async def test_a_forged_follower_pushes_no_consumer_out_of_its_session(tmp_path: Path) -> None:
    slots = {"max.incremental.fetch.session.cache.slots": "1"}
    async with guarded_node(tmp_path, slots) as node:
        await node.create("mine")
        await node.may(READ, transaction("t", Operation.WRITE))
        opened = await node.ask(fetch(["mine"], node.ids, session_epoch=0), 13)
        await node.ask(q.fetching(FOLLOWER, ("mine",), session_epoch=0), 13)
        request = fetch([], node.ids, session_id=opened.session_id, session_epoch=1)
        assert not (await node.ask(request, 13)).error_code


async def test_a_topic_that_is_being_deleted_is_still_only_for_those_who_may(
    node: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    await produced(node, name="theirs")
    await node.may(READ)
    # Files go in slices: what an id stands for is gone from the metadata, and not yet from here.
    monkeypatch.setattr(Reconciler, "_work", lambda _: None)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="theirs")], timeout_ms=5000)
    await node.broker.controller.handle(deletion.API_KEY, deletion, version=6)
    await until(lambda: node.ids["theirs"] not in node.broker.image.topics.by_id)
    answer = await node.ask(fetch(["theirs"], node.ids), 13)
    assert said(answer, node.ids) == {"theirs": NO_TOPIC}
    written = await node.ask(q.producing(names=("theirs",)), 13)
    assert errors(written, "responses", "topic_id") == {node.ids["theirs"]: NO_TOPIC}
    assert end(node, "theirs") == 1
