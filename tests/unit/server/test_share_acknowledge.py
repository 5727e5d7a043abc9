"""ShareAcknowledge through a whole node: what members say about records, and their sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from tests.unit.server.asking import running_node
from tests.unit.server.share_scene import SETTINGS, Scene, fresh_scene
from tests.unit.server.share_talk import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Said,
    acquired,
    broker_of,
    error_of,
    parts,
    verdict,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    async with running_node(tmp_path_factory.mktemp("node"), SETTINGS) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def scene(node: Node, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    async with fresh_scene(node, request.node.name) as made:
        yield made


# -- what members say -------------------------------------------------------------------------


async def test_what_was_accepted_never_comes_again(scene: Scene) -> None:
    await scene.produce(2, 2)
    async with scene.member() as anna:
        assert acquired(await anna.fetch(0, max_wait_ms=5000, max_records=2)) == [(0, 1, 1)]
        answer = await anna.fetch(said={0: [Said(0, 0), Said(1, 1, (REJECT,))]})
        assert parts(answer)[0].acknowledge_error_code == 0
        assert acquired(answer) == [(2, 3, 1)]
        await anna.close()
    async with scene.member() as anna:
        assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(2, 3, 2)]


async def test_one_word_for_each_record(scene: Scene) -> None:
    await scene.produce(4)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000)
        words = (ACCEPT, RELEASE, REJECT, RELEASE)
        assert verdict(await anna.acknowledge(Said(0, 3, words))) == 0
        assert acquired(await anna.fetch()) == [(1, 1, 2), (3, 3, 2)]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ([Said(1, 2)], ErrorCode.INVALID_RECORD_STATE),  # again
        ([Said(3, 4)], ErrorCode.INVALID_REQUEST),  # nobody was given these
        ([Said(0, 0), Said(3, 3)], ErrorCode.INVALID_REQUEST),  # all or nothing
        ([Said(0, 2**62)], ErrorCode.INVALID_REQUEST),
        ([Said(2**62, 2**63 - 1)], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_a_member_does_not_hold_it_cannot_speak_of(
    scene: Scene, said: list[Said], error: ErrorCode
) -> None:
    await scene.produce(3, 3)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000, max_records=3)
        assert verdict(await anna.acknowledge(Said(1, 2))) == 0
        begun = asyncio.get_running_loop().time()
        assert verdict(await anna.acknowledge(*said)) is error
        assert asyncio.get_running_loop().time() - begun < 2
        assert verdict(await anna.acknowledge(Said(0, 0))) == 0
        assert acquired(await anna.fetch()) == [(3, 5, 1)]


@pytest.mark.parametrize(
    "said",
    [
        [Said(2, 1)],
        [Said(0, 2, ())],
        [Said(0, 2, (ACCEPT, ACCEPT))],
        [Said(0, 2**62, (ACCEPT, ACCEPT))],
        [Said(0, 2, (5,))],
        [Said(0, 2, (-1,))],
        [Said(0, 2, (RENEW,))],  # without the flag that says so
        [Said(1, 2), Said(0, 0)],
    ],
)
async def test_what_makes_no_sense_is_refused_whole(scene: Scene, said: list[Said]) -> None:
    await scene.produce(3)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000)
        assert verdict(await anna.acknowledge(*said)) is ErrorCode.INVALID_REQUEST
        assert verdict(await anna.acknowledge(Said(0, 2))) == 0


async def test_a_request_that_renews_locks_fetches_nothing(scene: Scene) -> None:
    await scene.produce(1, 1)
    async with scene.member() as anna:
        await anna.fetch(0, max_wait_ms=5000, max_records=1)
        nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        renew = {0: [Said(0, 0, (RENEW,))]}
        answer = await anna.fetch(said=renew, is_renew_ack=True, **nothing)
        assert verdict(answer) == 0
        assert acquired(answer) == []
        greedy = await anna.fetch(said=renew, is_renew_ack=True)
        assert greedy.error_code == ErrorCode.INVALID_REQUEST


async def test_speaking_of_a_topic_that_is_not_there_tells_so(scene: Scene) -> None:
    await scene.produce(1)
    async with scene.member() as anna:
        await anna.fetch(0)
        anna.topic_id = b"?" * 16
        assert verdict(await anna.acknowledge(Said(0, 0))) is ErrorCode.UNKNOWN_TOPIC_ID
        anna.topic_id = scene.topic_id
        unknown = await anna.acknowledge(Said(0, 0), index=77)
        assert verdict(unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- sessions ---------------------------------------------------------------------------------


async def test_a_session_has_to_be_opened_and_its_epochs_counted(scene: Scene) -> None:
    async with scene.member() as anna:
        anna.epoch = 1
        assert (await anna.fetch(0)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        gone = await anna.acknowledge(Said(0, 0), epoch=-1)
        assert gone.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        anna.epoch = 0
        await anna.fetch(0)
        anna.epoch = 7
        assert (await anna.fetch()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        stale = await anna.acknowledge(Said(0, 0), epoch=0)
        assert stale.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_nothing_is_acknowledged_while_a_session_opens(scene: Scene) -> None:
    async with scene.member() as anna:
        refused = await anna.fetch(said={0: [Said(0, 0)]})
        assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_sessions_have_a_bound_and_who_finds_it_waits_first(scene: Scene) -> None:
    async with scene.member() as anna:
        for name in "abcd":
            anna.name, anna.epoch = name, 0
            assert (await anna.fetch(0)).error_code == 0
        anna.name, anna.epoch = "e", 0
        begun = asyncio.get_running_loop().time()
        refused = await anna.fetch(0, max_wait_ms=100)
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert asyncio.get_running_loop().time() - begun >= 0.09


@pytest.mark.parametrize("name", ["", "x" * 37])
async def test_a_member_has_a_name_of_some_length(scene: Scene, name: str) -> None:
    async with scene.member(name) as nobody:
        assert (await nobody.fetch(0)).error_code == ErrorCode.INVALID_REQUEST


async def test_what_is_not_there_is_said_partition_by_partition(scene: Scene) -> None:
    await scene.produce(1)
    async with scene.member() as anna:
        got = parts(await anna.fetch(0, 9, max_wait_ms=5000))
        assert got[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with scene.member() as anna:
        anna.topic_id = b"?" * 16
        assert error_of(await anna.fetch(0)) is ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_group_that_nobody_began_gets_nothing(scene: Scene) -> None:
    async with scene.member() as anna:
        anna.group = "nobody ever began"
        answer = await anna.fetch(0, max_wait_ms=20_000)
        assert error_of(answer) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker_of(scene.node).shares.partitions.find(anna.group, (scene.topic_id, 0)) is None


async def test_version_1_knows_no_renewal(scene: Scene) -> None:
    await scene.produce(1)
    async with scene.member() as anna:
        request = anna.request(0, max_wait_ms=5000)
        response = await anna.asker.ask(request, 1)
        assert acquired(response) == [(0, 0, 1)]
        anna.epoch = 1
        request = anna.request(said={0: [Said(0, 0, (RENEW,))]})
        refused = await anna.asker.ask(request, 1)
        assert verdict(refused) is ErrorCode.INVALID_REQUEST
