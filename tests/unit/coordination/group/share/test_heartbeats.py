"""Members of share groups join, share partitions, change their minds and leave."""

from __future__ import annotations

import pytest

from penstock.coordination.group.share.heartbeat import EAGER_MS, EAGER_MS_MAX
from penstock.model.errors import ErrorCode
from tests.unit.coordination.consumer.stage import GROUP_ID
from tests.unit.coordination.group.share.stage import HEARTBEAT_MS, SESSION_MS, ShareStage


@pytest.fixture
def stage() -> ShareStage:
    stage = ShareStage()
    stage.topic("t", 2)
    return stage


def test_a_partition_is_assigned_when_share_coordinators_know_it(stage: ShareStage) -> None:
    stage.resolves = False
    joined = stage.say("a", 0, "t")
    assert (joined.member_epoch, joined.assignment.topic_partitions) == (2, [])
    assert stage.kinds() == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
        "StatePartitionMetadata",
    ]
    assert stage.ready() == ({"t": [0, 1]}, {}, [])
    assert stage.say("a", 2).assignment is None
    assert stage.kinds() == []
    stage.resolve()
    assert stage.kinds() == ["StatePartitionMetadata"]
    assert stage.ready() == ({}, {"t": [0, 1]}, [])
    answer = stage.say("a", 2)
    assert answer.member_epoch == 3
    assert [it.partitions for it in answer.assignment.topic_partitions] == [[0, 1]]
    assert stage.kinds() == [
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]


def test_a_heartbeat_without_news_is_answered_from_memory(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.say("a", 2)
    stage.say("a", 3)
    stage.kinds()
    answer = stage.say("a", 3)
    assert (answer.member_epoch, answer.assignment) == (3, None)
    assert answer.heartbeat_interval_ms == HEARTBEAT_MS
    assert stage.kinds() == []
    assert not stage.shares.must_look


def test_who_waits_for_partitions_is_asked_to_come_again_soon_but_not_for_ever(
    stage: ShareStage,
) -> None:
    stage.resolves = False
    assert stage.say("a", 0, "t").heartbeat_interval_ms == EAGER_MS
    assert stage.say("a", 2).heartbeat_interval_ms == EAGER_MS
    stage.advance(EAGER_MS_MAX)
    assert stage.say("a", 2).heartbeat_interval_ms == HEARTBEAT_MS
    stage.resolve()
    answer = stage.say("a", 2)
    assert answer.heartbeat_interval_ms == HEARTBEAT_MS
    assert answer.assignment.topic_partitions


def test_more_members_than_partitions_share_them(stage: ShareStage) -> None:
    for member_id in "abcde":
        stage.say(member_id, 0, "t")
    stage.beat()
    stage.beat()
    held = [stage.has(it)["t"] for it in "abcde"]
    assert sorted(held) == [[0], [0], [0, 1], [1], [1]], "three members each"


def test_fewer_members_than_partitions_split_them() -> None:
    stage = ShareStage()
    stage.topic("t", 5)
    for member_id in "ab":
        stage.say(member_id, 0, "t")
    stage.beat()
    stage.beat()
    first, second = (stage.has(it)["t"] for it in "ab")
    assert sorted(first + second) == [0, 1, 2, 3, 4]
    assert abs(len(first) - len(second)) == 1


def test_who_leaves_is_forgotten_and_others_take_over(stage: ShareStage) -> None:
    for member_id in "ab":
        stage.say(member_id, 0, "t")
    stage.beat()
    stage.kinds()
    answer = stage.say("a", -1)
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    assert stage.kinds() == [
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "Metadata",
    ]
    stage.beat("b")
    assert stage.has("b") == {"t": [0, 1]}
    stage.say("b", -1)
    assert (stage.shares.state_name, stage.shares.is_empty) == ("Empty", True)


def test_who_is_silent_for_a_session_is_out(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.say("b", 0, "t")
    stage.advance(SESSION_MS - 1)
    stage.beat("b")
    stage.advance(1)
    assert set(stage.shares.members) == {"b"}
    stage.advance(SESSION_MS - 2)
    assert set(stage.shares.members) == {"b"}
    stage.advance(1)
    assert stage.shares.is_empty
    assert stage.say("b", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_is_as_long_as_the_group_says(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.configure("share.session.timeout.ms", "50000")
    stage.configure("share.heartbeat.interval.ms", "7000")
    stage.beat()
    stage.beat()
    assert stage.say("a", 3).heartbeat_interval_ms == 7_000
    stage.advance(49_999)
    assert not stage.shares.is_empty
    stage.advance(1)
    assert stage.shares.is_empty


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        ("a", 3, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.FENCED_MEMBER_EPOCH),
        ("a", 4, ErrorCode.FENCED_MEMBER_EPOCH),
        ("b", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("b", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_are_told_where_they_stand(
    stage: ShareStage, member: str, epoch: int, error: ErrorCode
) -> None:
    stage.say("a", 0, "t")
    stage.beat()
    assert stage.shares.members["a"].epoch == 3
    stage.kinds()
    assert stage.say(member, epoch).error_code == error
    assert stage.kinds() == []


def test_no_more_members_come_in_than_the_group_may_have() -> None:
    stage = ShareStage({"group.share.max.size": "2"})
    for member_id in "ab":
        assert stage.say(member_id, 0, "t").error_code == 0
    assert stage.say("c", 0, "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.say("a", 0, "t").error_code == 0


def test_targets_come_no_faster_than_allowed(stage: ShareStage) -> None:
    slow = ShareStage({"group.share.assignment.interval.ms": "1000"})
    slow.topic("t", 2)
    slow.say("a", 0, "t")
    answer = slow.say("a", 2)
    assert answer.assignment.topic_partitions, "the first partitions need not wait"
    joined = slow.say("b", 0, "t")
    assert joined.assignment.topic_partitions == []
    assert (joined.member_epoch, slow.shares.epoch) == (3, 4)
    assert joined.heartbeat_interval_ms == EAGER_MS
    slow.say("b", 3)
    assert slow.shares.epoch == 4, "waiting changes nothing"
    slow.advance(1_000)
    assert slow.say("b", 3).assignment.topic_partitions


def test_a_coordinator_whose_clock_is_behind_does_not_wait_for_it() -> None:
    slow = ShareStage({"group.share.assignment.interval.ms": "1000"})
    slow.topic("t", 2)
    slow.say("a", 0, "t")
    slow.say("a", 2)
    slow.mono -= 60_000
    slow.restart()
    assert slow.say("b", 0, "t").assignment.topic_partitions


def test_a_record_that_the_log_refuses_changes_nothing(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert stage.say("b", 0, "t") is None
    assert set(stage.shares.members) == {"a"}
    stage.refusing = None
    stage.say("b", 0, "t")
    stage.beat()
    assert {number for it in "ab" for number in stage.has(it)["t"]} == {0, 1}


def test_only_what_a_member_wants_is_its_own(stage: ShareStage) -> None:
    stage.topic("u", 1)
    stage.say("a", 0, "t", "u")
    stage.beat()
    assert stage.has("a") == {"t": [0, 1], "u": [0]}
    answer = stage.say("a", 3, "u")
    assert [it.partitions for it in answer.assignment.topic_partitions] == [[0]]
    assert stage.has("a") == {"u": [0]}


def test_other_groups_have_their_names_to_themselves(stage: ShareStage) -> None:
    stage.classic_join("", "t")
    assert stage.say("a", 0, "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.shard.groups[GROUP_ID].kind == "classic"


def test_a_share_group_has_its_name_to_itself(stage: ShareStage) -> None:
    stage.say("a", 0, "t")
    stage.say("a", -1)
    assert stage.classic_join("k", "t").reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    consumer = super(ShareStage, stage).say("a", 0, subscribed_topic_names=["t"])
    assert consumer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.shares.is_empty
