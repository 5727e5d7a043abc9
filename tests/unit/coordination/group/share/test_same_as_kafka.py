"""Penstock and Apache Kafka, in the same conversation with the members of a share group, agree.

Every heartbeat goes to both, and after each one both describe the group; in the end both have
written the same records. Topic ids differ between the two and are compared by the topics' names;
words and times are not compared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.generated.describe_groups import DescribeGroupsRequest
from penstock.protocol.generated.heartbeat import HeartbeatRequest
from penstock.protocol.generated.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.generated.sync_group import SyncGroupRequest
from penstock.protocol.message import Message
from tests.oracle.nodes import ApacheNode
from tests.unit.coordination.consumer.talk import Side
from tests.unit.coordination.group.share.talk import CONFIG, ShareConversation
from tests.unit.server.asking import asking, asking_node

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache"), config=CONFIG) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def talk(
    apache: ApacheNode, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[ShareConversation]:
    async with AsyncExitStack() as stack:
        theirs = Side(await stack.enter_async_context(asking(apache.port)))
        ours = Side(await stack.enter_async_context(asking_node(tmp_path, CONFIG)))
        conversation = ShareConversation([theirs, ours], f"group-{request.node.name}")
        await conversation.ready()
        yield conversation
        await conversation.compare_records()


async def test_members_share_partitions(talk: ShareConversation) -> None:
    await talk.create_in_order("shared")
    first = await talk.say("a", 0, "shared")
    assert (first.member_epoch, first.assignment.topic_partitions) == (2, [])
    got = await talk.say("a", 2)
    assert got.assignment.topic_partitions[0].partitions == [0, 1]
    assert (await talk.say("a", 3)).assignment is None
    await talk.say("b", 0, "shared")
    await talk.say("a", 3)
    await talk.say("c", 0, "shared")
    await talk.say("a", 4)
    await talk.say("b", 4)
    await talk.say("c", 5)
    await talk.say("b", -1)
    await talk.say("c", 5)
    await talk.say("a", 5)
    await talk.say("a", -1)
    assert (await talk.say("c", -1)).error_code == 0
    assert len(await talk.compare_records()) > 10


async def test_wrong_epochs_and_unknown_members(talk: ShareConversation) -> None:
    await talk.create("wrong", 2)
    assert (await talk.say("a", 3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await talk.say("a", -1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await talk.say("a", 0, "wrong")
    await talk.say("a", 2)
    assert (await talk.say("a", 2)).error_code == 0  # the answer before may have been lost
    assert (await talk.say("a", 9)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await talk.say("a", 1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await talk.say("z", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await talk.say("z", -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await talk.say("a", 0, "wrong")


@pytest.mark.parametrize(
    ("member", "epoch", "fields"),
    [
        ("a", 0, {}),
        ("a", 0, {"subscribed_topic_names": []}),
        ("a", 0, {"subscribed_topic_names": ["x"], "rack_id": " "}),
        ("", 0, {"subscribed_topic_names": ["x"]}),
        (" ", 3, {}),
        ("a", -2, {}),
    ],
)
async def test_requests_that_mean_nothing(
    talk: ShareConversation, member: str, epoch: int, fields: dict[str, Any]
) -> None:
    answer = await talk.say(member, epoch, **fields)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_a_group_that_is_full(talk: ShareConversation) -> None:
    for member_id in "abcd":
        await talk.say(member_id, 0, "full")
    assert (await talk.say("e", 0, "full")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await talk.say("e", 5)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    await talk.say("a", -1)
    assert (await talk.say("e", 0, "full")).error_code == 0


async def test_subscriptions_and_topics_change(talk: ShareConversation) -> None:
    await talk.create("first", 2)
    await talk.create("second", 3)
    await talk.say("a", 0, "first")
    await talk.say("a", 2, "first", "second")
    await talk.say("a", 3)
    await talk.say("a", 4, "second")
    await talk.grow("second", 5)
    await talk.say("a", 5)
    await talk.say("a", 6)
    await talk.say("a", 7, "second", "later")
    await talk.create("later", 1)
    await talk.say("a", 8)
    await talk.say("a", 9)
    await talk.delete("second")
    await talk.say("a", 10)
    await talk.say("a", 11)
    await talk.say("b", 0, "later", "first")
    await talk.say("b", 12)
    await talk.say("a", 12, rack_id="here")


async def test_members_want_different_topics(talk: ShareConversation) -> None:
    await talk.create("left", 3)
    await talk.create("right", 2)
    await talk.say("a", 0, "left")
    await talk.say("b", 0, "right")
    await talk.say("c", 0, "left", "right")
    await talk.say("a", 2)
    await talk.say("b", 3)
    await talk.say("c", 4)
    await talk.say("d", 0, "left")
    await talk.say("a", 5)


async def test_offsets_are_described_altered_and_deleted(talk: ShareConversation) -> None:
    await talk.create("here", 2)
    await talk.create("there", 1)
    await talk.say("a", 0, "here", "there")
    await talk.describe_offsets()
    await talk.describe_offsets({"here": [0, 1], "nowhere": [0]})
    refused = await talk.alter_offsets({"here": {0: 5}})
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    refused = await talk.delete_offsets("here")
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    await talk.say("a", -1)
    await talk.alter_offsets({"here": {0: 5, 9: 5}, "nowhere": {0: 3}})
    described = await talk.describe_offsets({"here": [0, 1]})
    assert [it.start_offset for it in described.groups[0].topics[0].partitions] == [5, -1]
    await talk.alter_offsets({"here": {1: 0}, "there": {0: 0}})
    await talk.describe_offsets()
    await talk.delete_offsets("here", "nowhere")
    await talk.delete_offsets("here")
    await talk.describe_offsets()
    await talk.say("b", 0, "here")
    await talk.say("b", 6)
    await talk.say("b", -1)
    assert (await talk.delete_group()).results[0].error_code == 0
    assert (await talk.delete_group()).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_begins_with_offsets(talk: ShareConversation) -> None:
    await talk.create("begin", 2)
    await talk.describe_offsets()
    refused = await talk.delete_offsets("begin")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await talk.alter_offsets({"begin": {0: 1, 1: 0}})
    await talk.list_groups()
    await talk.describe_offsets()
    await talk.say("a", 0, "begin")
    await talk.list_groups()
    assert (await talk.delete_group()).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    await talk.say("a", -1)
    await talk.delete_group()


async def test_groups_of_other_kinds_are_no_share_groups(talk: ShareConversation) -> None:
    await talk.create("kinds", 1)
    await talk.name("k")
    await talk.join("k", ["kinds"])
    assert (await talk.say("a", 0, "kinds")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    refused = await talk.alter_offsets({"kinds": {0: 0}})
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    refused = await talk.delete_offsets("kinds")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def _of_other_kinds(group_id: str) -> list[tuple[Message, range]]:
    """What members and administrators of other groups ask."""
    commit = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name="alone",
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
        ],
    )
    fetch = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[OffsetFetchRequestTopics(name="alone", partition_indexes=[0])],
            )
        ]
    )
    delete = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name="alone", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    consume = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["alone"],
        topic_partitions=[],
    )
    return [
        (commit, range(7, 10)),
        (fetch, range(8, 10)),
        (delete, range(1)),
        (consume, range(1, 2)),
        (ConsumerGroupDescribeRequest(group_ids=[group_id]), range(2)),
        (DescribeGroupsRequest(groups=[group_id]), range(5, 7)),
        (HeartbeatRequest(group_id=group_id, member_id="c", generation_id=1), range(4, 5)),
        (
            LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id="c")]),
            range(5, 6),
        ),
        (SyncGroupRequest(group_id=group_id, member_id="c", generation_id=1), range(5, 6)),
    ]


async def test_a_share_group_is_no_group_of_another_kind(talk: ShareConversation) -> None:
    await talk.create("alone", 1)
    await talk.say("a", 0, "alone")
    for epoch in (2, -1):  # with a member, and without
        await talk.say("a", epoch)
        for request, versions in _of_other_kinds(talk.group_id):
            for version in versions:
                await talk.ask(version, lambda _, request=request: request)  # type: ignore[misc]
        await talk.join("c", ["alone"])
