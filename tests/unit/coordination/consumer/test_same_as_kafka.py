"""Penstock and Apache Kafka, in the same conversation with the members of a group, agree.

Every heartbeat goes to both, and after each one both describe the group; in the end both have
written the same records. Topic ids differ between the two and are compared by the topics' names;
words and times are not compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from tests.oracle.nodes import ApacheNode
from tests.unit.coordination.consumer.talk import CONFIG, Conversation, Side
from tests.unit.server.asking import asking, asking_node

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache"), config=CONFIG) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def talk(
    apache: ApacheNode, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Conversation]:
    async with AsyncExitStack() as stack:
        theirs = Side(await stack.enter_async_context(asking(apache.port)))
        ours = Side(await stack.enter_async_context(asking_node(tmp_path, CONFIG)))
        conversation = Conversation([theirs, ours], f"group-{request.node.name}")
        await conversation.ready()
        yield conversation
        await conversation.compare_records()


async def test_partitions_move_from_member_to_member(talk: Conversation) -> None:
    await talk.create("moves", 6)
    names: dict[str, Any] = {"subscribed_topic_names": ["moves"]}
    first = await talk.say("a", 0, **names)
    assert first.member_epoch == 2
    await talk.say("a", 2, owned={"moves": [0, 1, 2, 3, 4, 5]})
    await talk.say("a", 2)
    await talk.say("b", 0, **names)
    await talk.say("a", 2)
    await talk.say("b", 3)
    await talk.say("a", 2, owned={"moves": [0, 1, 2]})
    await talk.say("b", 3)
    await talk.say("b", 3, owned={"moves": [3, 4, 5]})
    await talk.say("c", 0, **names)
    await talk.say("a", 3)
    await talk.say("b", 3)
    await talk.say("b", 3, owned={"moves": [3, 4]})
    await talk.say("a", 3, owned={"moves": [0, 1]})
    await talk.say("c", 4)
    await talk.say("b", -1)
    await talk.say("c", 4)
    await talk.say("a", 4)
    await talk.say("c", 5)
    assert (await talk.say("a", -1)).error_code == 0
    await talk.say("c", 5)
    assert (await talk.say("c", -1)).error_code == 0
    assert (await talk.say("c", 6)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(await talk.compare_records()) > 10


async def test_wrong_epochs_and_unknown_members(talk: Conversation) -> None:
    await talk.create("wrong", 2)
    names: dict[str, Any] = {"subscribed_topic_names": ["wrong"]}
    assert (await talk.say("a", 3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await talk.say("a", -1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await talk.say("a", 0, **names)
    assert (await talk.say("a", 9)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await talk.say("a", 1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await talk.say("z", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await talk.say("z", -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await talk.say("b", 0, **names)
    await talk.say("a", 2, owned={"wrong": [0]})
    again = await talk.say("a", 2, owned={"wrong": [0]})
    assert again.error_code == 0  # the answer before may have been lost
    assert (await talk.say("a", 2, owned={"wrong": [1]})).error_code
    assert (await talk.say("a", 2)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    await talk.say("a", 0, **names)


@pytest.mark.parametrize(
    ("epoch", "fields", "version", "error"),
    [
        (0, {"subscribed_topic_names": ["x"], "server_assignor": "best"}, 1, 112),
        (0, {"subscribed_topic_regex": "a(b"}, 1, 128),
        (0, {"subscribed_topic_regex": "(?=a)"}, 1, 128),
        (0, {"subscribed_topic_names": ["x"], "rebalance_timeout_ms": -1}, 1, 42),
        (0, {}, 1, 42),
        (0, {"subscribed_topic_names": ["x"], "instance_id": ""}, 1, 42),
        (0, {"subscribed_topic_names": ["x"], "rack_id": " "}, 1, 42),
        (-2, {}, 1, 42),
        (-3, {}, 1, 42),
        (0, {"subscribed_topic_names": ["x"], "owned": {"bad": [0]}}, 1, 42),
    ],
)
async def test_requests_that_mean_nothing(
    talk: Conversation, epoch: int, fields: dict[str, Any], version: int, error: int
) -> None:
    for side in talk.sides:
        side.ids["bad"] = b"b" * 16
    assert (await talk.say("a", epoch, version=version, **fields)).error_code == error


async def test_members_need_a_name(talk: Conversation) -> None:
    names: dict[str, Any] = {"subscribed_topic_names": ["x"]}
    assert (await talk.say("", 0, **names)).error_code == ErrorCode.INVALID_REQUEST
    assert (await talk.say("", 5, version=0)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_group_that_is_full(talk: Conversation) -> None:
    names: dict[str, Any] = {"subscribed_topic_names": ["full"]}
    for member_id in "abcd":
        await talk.say(member_id, 0, **names)
    assert (await talk.say("e", 0, **names)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    await talk.say("a", -1)
    assert (await talk.say("e", 0, **names)).error_code == 0


async def test_static_members_come_back(talk: Conversation) -> None:
    await talk.create("static", 4)
    names: dict[str, Any] = {"subscribed_topic_names": ["static"]}
    await talk.say("a", 0, instance_id="one", **names)
    await talk.say("b", 0, instance_id="two", **names)
    await talk.say("a", 2, instance_id="one", owned={"static": [0, 1]})
    await talk.say("b", 3, instance_id="two")
    unreleased = await talk.say("a2", 0, instance_id="one", **names)
    assert unreleased.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    unknown = await talk.say("a", 3, instance_id="three")
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    fenced = await talk.say("a2", 3, instance_id="one")
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    fenced = await talk.say("a2", -2, instance_id="one")
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    await talk.say("a", -2, instance_id="one")
    back = await talk.say("a2", 0, instance_id="one", **names)
    assert back.assignment.topic_partitions[0].partitions == [0, 1]
    await talk.say("a2", 3, instance_id="one")
    await talk.say("a2", -1, instance_id="one")
    await talk.say("b", 3, instance_id="two")


async def test_subscriptions_and_topics_change(talk: Conversation) -> None:
    await talk.create("first", 2)
    await talk.create("second", 3)
    await talk.say("a", 0, subscribed_topic_names=["first"])
    await talk.say("a", 2, subscribed_topic_names=["first", "second"])
    await talk.say("a", 3, subscribed_topic_names=["second"])
    await talk.say("a", 3, owned={"second": [0, 1, 2]})
    await talk.grow("second", 5)
    await talk.say("a", 4)
    await talk.say("a", 5, subscribed_topic_names=["second", "later"])
    await talk.create("later", 1)
    await talk.say("a", 6)
    await talk.delete("second")
    await talk.say("a", 7)
    await talk.say("a", 7, owned={"later": [0]})
    await talk.say("a", 8, subscribed_topic_names=[])
    await talk.say("a", 8, owned={})


async def test_each_member_may_ask_for_an_assignor(talk: Conversation) -> None:
    await talk.create("ranges", 5)
    names: dict[str, Any] = {"subscribed_topic_names": ["ranges"]}
    await talk.say("a", 0, server_assignor="range", **names)
    await talk.say("b", 0, **names)
    await talk.say("a", 2, owned={"ranges": [0, 1, 2]})
    await talk.say("b", 3)
    await talk.say("c", 0, server_assignor="uniform", **names)
    await talk.say("d", 0, server_assignor="uniform", **names)


async def test_regular_expressions_are_resolved_by_the_coordinator(talk: Conversation) -> None:
    await talk.create("logs-a", 2)
    await talk.create("other", 2)
    # Resolving takes one of them longer than the other.
    joined = await talk.say("a", 0, subscribed_topic_regex="logs-.*", describe=False)
    await asyncio.sleep(1)
    moved = await talk.say("a", joined.member_epoch)
    assert moved.member_epoch == 2
    assert moved.assignment.topic_partitions[0].partitions == [0, 1]
    await talk.say("b", 0, subscribed_topic_regex="logs-.*")
    await talk.say("b", 3, subscribed_topic_names=["other"])
    await talk.say("b", 4, subscribed_topic_regex="")
    await talk.say("a", 2, owned={})


async def test_a_classic_group_is_upgraded_and_goes_back(talk: Conversation) -> None:
    await talk.create("both", 4)
    names: dict[str, Any] = {"subscribed_topic_names": ["both"]}
    await talk.name("k")
    joined = await talk.join("k", ["both"])
    await talk.sync("k", joined.generation_id, {"both": [0, 1, 2, 3]})
    assert await talk.beat("k", 1) == ErrorCode.NONE
    await talk.say("a", 0, **names)
    assert await talk.beat("k", 1) == ErrorCode.REBALANCE_IN_PROGRESS
    early = await talk.sync("k", 1)
    assert early.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await talk.join("k", ["both"], {"both": [0, 1, 2, 3]})
    assert joined.generation_id == 1  # it has to let go first
    await talk.sync("k", 1)
    assert await talk.beat("k", 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await talk.join("k", ["both"], {"both": [0, 1]})
    await talk.sync("k", joined.generation_id)
    assert await talk.beat("k", joined.generation_id) == ErrorCode.NONE
    assert await talk.beat("k", 1) == ErrorCode.ILLEGAL_GENERATION
    assert await talk.beat("a", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await talk.beat("nobody", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    got = await talk.say("a", 2)
    assert got.assignment.topic_partitions[0].partitions == [2, 3]
    assert (await talk.leave("nobody")).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await talk.say("a", -1)
    assert await talk.beat("k", joined.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await talk.join("k", ["both"], {"both": [0, 1]})
    await talk.sync("k", joined.generation_id, {"both": [0, 1, 2, 3]})
    assert await talk.beat("k", joined.generation_id) == ErrorCode.NONE


async def test_classic_members_join_and_leave_a_consumer_group(talk: Conversation) -> None:
    await talk.create("mixed", 4)
    names: dict[str, Any] = {"subscribed_topic_names": ["mixed"]}
    await talk.say("a", 0, **names)
    await talk.name("k")
    joined = await talk.join("k", ["mixed"])
    await talk.sync("k", joined.generation_id)
    await talk.say("a", 2, owned={"mixed": [0, 1]})
    assert await talk.beat("k", joined.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await talk.join("k", ["mixed"])
    await talk.sync("k", joined.generation_id)
    await talk.leave("k")
    await talk.say("a", 3)
    await talk.say("a", -1)
    await talk.name("late")
    joined = await talk.join("late", ["mixed"])
    assert joined.error_code == ErrorCode.NONE


async def test_static_members_change_protocols(talk: Conversation) -> None:
    await talk.create("statics", 4)
    names: dict[str, Any] = {"subscribed_topic_names": ["statics"]}
    await talk.say("a", 0, instance_id="one", **names)
    await talk.say("b", 0, instance_id="two", **names)
    await talk.say("a", 2, instance_id="one", owned={"statics": [0, 1]})
    await talk.say("b", 3, instance_id="two")
    await talk.say("a", -2, instance_id="one")
    joined = await talk.join_static("a2", "one", ["statics"])
    assert (joined.error_code, joined.generation_id) == (0, 3)
    await talk.sync("a2", 3)
    assert await talk.beat("a2", 3) == ErrorCode.NONE
    await talk.say("b", -2, instance_id="two")
    joined = await talk.join_static("b2", "two", ["statics"])
    assert (joined.error_code, joined.generation_id) == (0, 3)
    gone = await talk.say("b", 3)
    assert gone.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await talk.sync("b2", 3)
    assert await talk.beat("a2", 3) == ErrorCode.NONE


async def test_late_commits(talk: Conversation) -> None:
    await talk.create("late", 4)
    names: dict[str, Any] = {"subscribed_topic_names": ["late"]}
    await talk.say("a", 0, **names)
    await talk.say("b", 0, **names)
    await talk.say("a", 2, owned={"late": [0, 1]})
    await talk.say("b", 3)
    assert await talk.commit("a", 3, "late", 0, 2) == ErrorCode.NONE
    assert await talk.commit("a", 2, "late", 0, 1) == ErrorCode.NONE
    assert await talk.commit("a", 2, "late", 0, 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert await talk.commit("b", 2, "late", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert await talk.commit("b", 4, "late", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert await talk.commit("z", 3, "late", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await talk.commit("", -1, "late", 2) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_subscription_that_no_batch_can_hold(talk: Conversation) -> None:
    many = [f"a-topic-with-a-rather-long-name-{number}" for number in range(40_000)]
    answer = await talk.say("a", 0, subscribed_topic_names=many)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
