"""Penstock and Apache Kafka, in the same conversation with the members of a streams group, agree.

Every heartbeat goes to both, and after each one both describe the group; in the end both have
written the same records. Words and times are not compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.coordination.group.streams.status import StatusCode
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequestEndpoint,
)
from tests.oracle.nodes import ApacheNode
from tests.unit.coordination.consumer.talk import SETTLING_SECONDS
from tests.unit.coordination.group.streams.applications import (
    application,
    internal,
    stateful,
    stateless,
    subtopology,
    word_count,
)
from tests.unit.coordination.group.streams.talk import (
    CONFIG,
    Side,
    StreamsConversation,
    codes,
)
from tests.unit.server.asking import asking, asking_node

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache"), config=CONFIG) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def talk(
    apache: ApacheNode, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[StreamsConversation]:
    async with AsyncExitStack() as stack:
        theirs = Side(await stack.enter_async_context(asking(apache.port)))
        ours = Side(await stack.enter_async_context(asking_node(tmp_path, CONFIG)))
        conversation = StreamsConversation([theirs, ours], f"group-{request.node.name}")
        await conversation.ready()
        yield conversation
        await conversation.compare_records()


async def test_tasks_move_from_member_to_member(talk: StreamsConversation) -> None:
    await talk.create("moves", 6)
    topology = stateless("moves")
    first = await talk.say("a", 0, topology=topology)
    assert first.member_epoch == 2
    assert first.active_tasks[0].partitions == [0, 1, 2, 3, 4, 5]
    await talk.say("a", 2, {"0": [0, 1, 2, 3, 4, 5]})
    assert (await talk.say("a", 2)).active_tasks is None
    await talk.say("b", 0, topology=topology)
    revoked = await talk.say("a", 2)
    assert (revoked.member_epoch, revoked.active_tasks[0].partitions) == (2, [0, 1, 2])
    await talk.say("b", 3)
    await talk.say("a", 2)  # it does not say that it has let go
    await talk.say("a", 2, {"0": [0, 1, 2]})
    await talk.say("b", 3)
    await talk.say("b", 3, {"0": [3, 4, 5]})
    await talk.say("c", 0, topology=topology)
    await talk.say("a", 3)
    await talk.say("b", 3)
    await talk.say("b", 3, {"0": [3, 4]})
    await talk.say("a", 3, {"0": [0, 1]})
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


async def test_internal_topics_are_missing_at_first(talk: StreamsConversation) -> None:
    await talk.create("lines", 3)
    first = await talk.say("a", 0, topology=word_count("lines"))
    assert codes(first) == [StatusCode.MISSING_INTERNAL_TOPICS]
    await talk.wait_for_topics("lines-handed-on", "lines-changelog")
    got = await talk.say("a", 2)
    assert codes(got) == []
    assert [(it.subtopology_id, it.partitions) for it in got.active_tasks] == [
        ("0", [0, 1, 2]),
        ("1", [0, 1, 2]),
    ]
    await talk.say("a", 3, {"0": [0, 1, 2], "1": [0, 1, 2]})
    await talk.say("a", 3, {"0": [0, 1, 2], "2": [0]})
    assert (await talk.say("a", 3, {"0": [3]})).error_code == ErrorCode.INVALID_REQUEST
    await talk.delete("lines-handed-on")
    assert codes(await talk.say("a", 3)) == [StatusCode.MISSING_INTERNAL_TOPICS]
    await talk.wait_for_topics("lines-handed-on")
    await talk.say("a", 3, {})
    await talk.say("a", 5, {})


async def test_source_topics_are_missing_and_come_and_grow(talk: StreamsConversation) -> None:
    first = await talk.say("a", 0, topology=stateless("late", "later"))
    assert codes(first) == [StatusCode.MISSING_SOURCE_TOPICS]
    await talk.create("late", 1)
    assert codes(await talk.say("a", 2)) == [StatusCode.MISSING_SOURCE_TOPICS]
    await talk.create("later", 2)
    assert (await talk.say("a", 3)).active_tasks[0].partitions == [0, 1]
    await talk.grow("late", 4)
    assert (await talk.say("a", 4)).active_tasks[0].partitions == [0, 1, 2, 3]
    await talk.delete("late")
    assert codes(await talk.say("a", 5)) == [StatusCode.MISSING_SOURCE_TOPICS]
    await talk.say("a", 5, {})


async def test_wrong_epochs_and_unknown_members(talk: StreamsConversation) -> None:
    await talk.create("wrong", 2)
    topology = stateless("wrong")
    assert (await talk.say("a", 3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await talk.say("a", -1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await talk.say("a", 0, topology=topology)
    assert (await talk.say("b", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await talk.say("b", -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await talk.say("a", 3)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await talk.say("a", 1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    await talk.say("b", 0, topology=topology)
    await talk.say("a", 2, {"0": [0, 1]})
    await talk.say("a", 2, {"0": [0]})
    # The answer was lost: it asks at its former epoch.
    assert (await talk.say("a", 2, {"0": [0]})).member_epoch == 3
    assert (await talk.say("a", 2, {"0": [1]})).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await talk.say("a", 2)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    # It comes back as if it were new.
    again = await talk.say("a", 0, topology=topology)
    assert (again.member_epoch, again.active_tasks[0].partitions) == (3, [0])


async def test_requests_that_mean_nothing(talk: StreamsConversation) -> None:
    await talk.create("nothing", 1)
    topology = stateless("nothing")
    invalid = ErrorCode.INVALID_REQUEST
    assert (await talk.say("", 0, topology=topology)).error_code == invalid
    assert (await talk.say("a", 0)).error_code == invalid
    assert (await talk.say("a", 0, {"0": [0]}, topology=topology)).error_code == invalid
    assert (await talk.say("a", 0, topology=topology, rack_id=" ")).error_code == invalid
    no_timeout = await talk.say("a", 0, topology=topology, rebalance_timeout_ms=-1)
    assert no_timeout.error_code == invalid
    assert (await talk.say("a", -2)).error_code == invalid
    assert (await talk.say("a", -3)).error_code == invalid
    assert (await talk.say("a", 0, topology=topology, instance_id="i")).error_code == invalid
    assert (await talk.say("a", 0, topology=topology, task_offsets=[])).error_code == invalid
    assert (await talk.say("a", 0, topology=topology, task_end_offsets=[])).error_code == invalid
    await talk.say("a", 0, topology=topology)
    assert (await talk.say("a", 2, topology=topology)).error_code == invalid
    some = await talk.say("a", 2, {}, standby_tasks=None)
    assert some.error_code == invalid
    other = stateless("nothing", "else")
    assert (await talk.say("b", 0, topology=other)).error_code == invalid
    changed = stateless("nothing")
    changed.epoch = 1
    assert (await talk.say("b", 0, topology=changed)).error_code == invalid


async def test_topologies_that_cannot_be(talk: StreamsConversation) -> None:
    await talk.create("source", 2)
    wrong = ErrorCode.STREAMS_INVALID_TOPOLOGY
    fixed = application(subtopology("0", "source", changelogs=[internal("own", 3)]))
    assert (await talk.say("a", 0, topology=fixed)).error_code == wrong
    own = stateless("__consumer_offsets")
    assert (await talk.say("a", 0, topology=own)).error_code == wrong
    badly_named = stateless("no topic's name")
    assert (await talk.say("a", 0, topology=badly_named)).error_code == wrong
    unwritten = application(subtopology("0", "source", reads=[internal("unwritten")]))
    assert (await talk.say("a", 0, topology=unwritten)).error_code == wrong
    circle = application(
        subtopology("0", reads=[internal("x")], writes=["y"]),
        subtopology("1", reads=[internal("y")], writes=["x"]),
    )
    assert (await talk.say("a", 0, topology=circle)).error_code == wrong
    pattern = stateless("source")
    pattern.subtopologies[0].source_topic_regex = ["s.*"]
    assert (await talk.say("a", 0, topology=pattern)).error_code == ErrorCode.INVALID_REQUEST


async def test_topics_that_must_be_partitioned_alike(talk: StreamsConversation) -> None:
    await talk.create("left", 2)
    await talk.create("right", 3)
    joined = application(subtopology("0", "left", "right", together=[((0, 1), ())]))
    first = await talk.say("a", 0, topology=joined)
    assert codes(first) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    await talk.grow("left", 3)
    assert (await talk.say("a", 2)).active_tasks[0].partitions == [0, 1, 2]


async def test_repartition_topics_follow_what_they_are_joined_with(
    talk: StreamsConversation,
) -> None:
    await talk.create("many", 4)
    await talk.create("few", 2)
    joined = application(
        subtopology("0", "few", writes=["handed-on"]),
        subtopology("1", "many", reads=[internal("handed-on")], together=[((0,), (0,))]),
        subtopology("2", "few", writes=["fixed"]),
        subtopology("3", reads=[internal("fixed", 5)], changelogs=[internal("kept")]),
    )
    await talk.say("a", 0, topology=joined)
    await talk.wait_for_topics("handed-on", "fixed", "kept")
    got = await talk.say("a", 2)
    assert [len(it.partitions) for it in got.active_tasks] == [2, 4, 2, 5]


async def test_an_internal_topic_has_the_wrong_partitions(talk: StreamsConversation) -> None:
    await talk.create("input", 2)
    await talk.create("input-changelog", 3)
    first = await talk.say("a", 0, topology=stateful("input"))
    assert codes(first) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    await talk.delete("input-changelog")
    assert codes(await talk.say("a", 2)) == [StatusCode.MISSING_INTERNAL_TOPICS]
    await talk.wait_for_topics("input-changelog")
    await talk.say("a", 3)


async def test_standbys_are_kept_by_other_processes(talk: StreamsConversation) -> None:
    await talk.create("copied", 2)
    await talk.configure("streams.num.standby.replicas", "1")
    await talk.say("a", 0, topology=stateful("copied"))
    await talk.wait_for_topics("copied-changelog")
    await talk.say("a", 2)
    await talk.say("a", 3, {"0": [0, 1]})
    await talk.say("b", 0, topology=stateful("copied"))
    await talk.say("a", 3)
    await talk.say("a", 3, {"0": [0]})
    await talk.say("a", 4, {"0": [0]})
    await talk.say("b", 4)
    await talk.say("b", 4)
    await talk.say("a", 4)
    await talk.say("b", -1)
    await talk.say("a", 4)
    await talk.say("a", 4, {"0": [0]}, {})
    await talk.say("a", 5, {"0": [0]}, {})
    await talk.say("a", 5, {"0": [0, 1]}, {})
    await talk.configure("streams.num.standby.replicas", "0")
    await talk.say("a", 5)


async def test_a_new_group_waits_for_more_members(talk: StreamsConversation) -> None:
    await talk.create("waits", 2)
    await talk.configure("streams.initial.rebalance.delay.ms", "600000")
    topology = stateless("waits")
    first = await talk.say("a", 0, topology=topology)
    assert codes(first) == [StatusCode.ASSIGNMENT_DELAYED]
    assert first.member_epoch == 1
    await talk.say("b", 0, topology=topology)
    assert codes(await talk.say("a", 1)) == [StatusCode.ASSIGNMENT_DELAYED]
    await talk.say("b", -1)
    await talk.say("a", -1)


async def test_targets_come_at_intervals(talk: StreamsConversation) -> None:
    await talk.create("slowly", 2)
    await talk.configure("streams.assignment.interval.ms", "15000")
    topology = stateless("slowly")
    await talk.say("a", 0, topology=topology)
    later = await talk.say("b", 0, topology=topology)
    assert codes(later) == [StatusCode.ASSIGNMENT_DELAYED]
    assert codes(await talk.say("a", 2)) == [StatusCode.ASSIGNMENT_DELAYED]


async def test_a_member_asks_all_to_stop(talk: StreamsConversation) -> None:
    await talk.create("stops", 2)
    topology = stateless("stops")
    await talk.say("a", 0, topology=topology)
    await talk.say("b", 0, topology=topology)
    asked = await talk.say("b", 3, shutdown_application=True)
    assert codes(asked) == [StatusCode.SHUTDOWN_APPLICATION]
    assert codes(await talk.say("a", 2)) == [StatusCode.SHUTDOWN_APPLICATION]
    await talk.say("a", -1, shutdown_application=True)
    assert codes(await talk.say("b", 3)) == [StatusCode.SHUTDOWN_APPLICATION]
    await talk.say("b", -1)
    assert codes(await talk.say("c", 0, topology=topology)) == []


async def test_what_members_say_of_themselves(talk: StreamsConversation) -> None:
    await talk.create("themselves", 2)
    topology = stateless("themselves")
    here = StreamsGroupHeartbeatRequestEndpoint(host="here", port=9)
    tags = [KeyValue(key="zone", value="z"), KeyValue(key="cluster", value="k")]
    fields: Any = {"user_endpoint": here, "client_tags": tags, "rack_id": "r"}
    await talk.say("a", 0, topology=topology, endpoint_information_epoch=-1, **fields)
    await talk.say("a", 2, endpoint_information_epoch=0)
    await talk.say("b", 0, topology=topology, endpoint_information_epoch=-1)
    await talk.say("a", 2, endpoint_information_epoch=1)
    await talk.say("a", 2, {"0": [0]}, endpoint_information_epoch=1)
    await talk.say("b", 3, endpoint_information_epoch=1)
    await talk.say("a", 3, process_id="another", endpoint_information_epoch=2)


async def test_members_beyond_the_maximum(talk: StreamsConversation) -> None:
    await talk.create("crowded", 1)
    topology = stateless("crowded")
    for member in "abcd":
        await talk.say(member, 0, topology=topology)
    full = await talk.say("e", 0, topology=topology)
    assert full.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_commits_of_members_at_their_epochs(talk: StreamsConversation) -> None:
    await talk.create("commits", 2)
    topology = stateless("commits")
    await talk.say("a", 0, topology=topology)
    assert await talk.commit("a", 2, "commits", 0, 1) == ErrorCode.NONE
    assert await talk.commit("a", 3, "commits", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert await talk.commit("a", 1, "commits", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert await talk.commit("b", 2, "commits", 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await talk.commit("", -1, "commits", 0) == ErrorCode.UNKNOWN_MEMBER_ID
    await talk.say("b", 0, topology=topology)
    await talk.say("a", 2)
    assert await talk.commit("a", 2, "commits", 0, 1) == ErrorCode.NONE
    await talk.say("a", 2, {"0": [0]})
    assert await talk.commit("a", 2, "commits", 0) == ErrorCode.NONE
    assert await talk.commit("a", 2, "commits", 1) == ErrorCode.STALE_MEMBER_EPOCH


async def test_kinds_of_groups_do_not_mix(talk: StreamsConversation) -> None:
    await talk.create("mixed", 1)
    await talk.say("a", 0, topology=stateless("mixed"))
    refused = await talk.join("", ["mixed"])
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await talk.say("a", -1)
    await talk.name("classic")  # takes the empty group's place
    await asyncio.sleep(SETTLING_SECONDS)  # or Kafka would write it in one batch with the next
    again = await talk.say("a", 0, topology=stateless("mixed"))
    assert again.error_code == 0
