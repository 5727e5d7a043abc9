"""Share groups through a whole node, where somebody behaves badly or something goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.server.share_persister import ShareKey
from penstock.server.shares import SESSION_ROOM
from tests.unit.server.asking import running_node
from tests.unit.server.share_scene import SETTINGS, Scene, fresh_scene
from tests.unit.server.share_talk import (
    REJECT,
    Said,
    acquired,
    broker_of,
    configure,
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


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


async def begin_anew(scene: Scene, start: int = 0) -> None:
    """Delete the group's state and begin another, as a group does that is deleted and made anew:
    its epochs begin again, too."""
    key = ShareKey(scene.group, scene.topic_id, 0)
    persister = broker_of(scene.node).coordinators.persister
    assert await persister.delete(key) is ErrorCode.NONE
    assert await persister.initialize(key, 0, start) is ErrorCode.NONE


# -- groups that begin anew -------------------------------------------------------------------


async def test_a_group_that_is_made_anew_inherits_nothing_from_letters_that_wait(
    scene: Scene,
) -> None:
    missing = {"errors.deadletterqueue.topic.name": "dlq.missing"}
    await configure(scene.asker, scene.group, missing)
    await scene.produce(10)
    async with scene.member() as anna:
        assert acquired(await anna.fetch(0, max_wait_ms=2_000)) == [(0, 9, 1)]
        assert verdict(await anna.acknowledge(Said(0, 9, (REJECT,)))) is ErrorCode.NONE
        await anna.close()
    await begin_anew(scene)
    async with scene.member("bert") as bert:
        assert acquired(await bert.fetch(0, max_wait_ms=2_000)) == [(0, 9, 1)]


async def test_a_member_of_a_group_that_was_deleted_begins_with_the_new_one(scene: Scene) -> None:
    await scene.produce(10)
    async with scene.member() as anna:
        assert acquired(await anna.fetch(0, max_wait_ms=2_000)) == [(0, 9, 1)]
        key = ShareKey(scene.group, scene.topic_id, 0)
        await broker_of(scene.node).coordinators.persister.delete(key)
        assert verdict(await anna.acknowledge(Said(0, 4))) is ErrorCode.UNKNOWN_SERVER_ERROR
        await begin_anew(scene)
        assert acquired(await anna.fetch(max_wait_ms=2_000)) == [(0, 9, 1)]


async def test_a_group_is_set_back_though_a_member_hangs_that_nobody_hears_of(
    scene: Scene,
) -> None:
    await scene.produce(10)
    async with scene.member("zoe") as zoe, scene.member("anna") as anna:
        assert acquired(await zoe.fetch(0, max_wait_ms=2_000)) == [(0, 9, 1)]
        assert verdict(await zoe.acknowledge(Said(0, 9))) is ErrorCode.NONE
        # The group's coordinator takes her for dead; her connection is as it was.
        key = ShareKey(scene.group, scene.topic_id, 0)
        persister = broker_of(scene.node).coordinators.persister
        assert await persister.initialize(key, 7, 5) is ErrorCode.NONE
        told = await anna.fetch(0, max_wait_ms=2_000)
        assert error_of(told) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert acquired(await anna.fetch(max_wait_ms=2_000)) == [(5, 9, 1)]


# -- absurd requests --------------------------------------------------------------------------


async def test_a_session_does_not_name_many_more_partitions_than_there_are(scene: Scene) -> None:
    await scene.produce(1)
    shares = broker_of(scene.node).shares
    async with scene.member() as anna:
        assert len(parts(await anna.fetch(*range(SESSION_ROOM), max_wait_ms=2_000))) >= 997
        told = await anna.fetch(*range(SESSION_ROOM, 2 * SESSION_ROOM))
        assert told.error_code == ErrorCode.INVALID_REQUEST
        assert told.error_message is not None
        assert "partitions" in told.error_message
        assert len(shares.sessions) == 0
        anna.epoch = 0
        assert acquired(await anna.fetch(0, max_wait_ms=2_000)) == [(0, 0, 1)]
