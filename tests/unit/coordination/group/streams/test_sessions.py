"""Members of streams groups that are silent, that do not let go, and that come after a failover."""

from __future__ import annotations

from penstock.coordination.group.streams.member import State
from penstock.model.errors import ErrorCode
from tests.unit.coordination.group.streams.applications import stateful, stateless
from tests.unit.coordination.group.streams.stage import (
    HEARTBEAT_MS,
    REBALANCE_MS,
    SESSION_MS,
    StreamsStage,
    listed,
)


def two_members() -> StreamsStage:
    stage = StreamsStage()
    stage.topic("lines", 4)
    for member in "ab":
        stage.enter(member, stateless("lines"))
    return stage


def test_a_silent_member_loses_its_tasks_to_others() -> None:
    stage = two_members()
    stage.calm()
    for _ in range(SESSION_MS // HEARTBEAT_MS + 1):
        stage.advance(HEARTBEAT_MS)
        stage.hear("b", stage.group.members["b"].epoch)
    assert list(stage.group.members) == ["b"]
    assert listed(stage.tasks("b").active) == {"0": [0, 1, 2, 3]}
    assert stage.hear("a", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_let_go_in_time_is_fenced() -> None:
    stage = two_members()
    stage.hear("a", 2)
    assert stage.group.members["a"].state is State.UNREVOKED_TASKS
    for _ in range(REBALANCE_MS // HEARTBEAT_MS):
        for member in tuple(stage.group.members):
            stage.hear(member, stage.group.members[member].epoch)
        stage.advance(HEARTBEAT_MS)
    assert list(stage.group.members) == ["b"]


def test_a_member_that_lets_go_in_time_stays() -> None:
    stage = two_members()
    stage.hear("a", 2)
    stage.hear("a", 2, {"0": [0, 1]})
    stage.advance(REBALANCE_MS)
    stage.hear("a", 3)
    assert list(stage.group.members) == ["a", "b"]


def test_a_new_coordinator_knows_what_the_old_one_knew() -> None:
    stage = StreamsStage({"group.streams.num.standby.replicas": "1"})
    stage.topic("lines", 4)
    stage.topic("lines-changelog", 4)
    for member in "abc":
        stage.enter(member, stateful("lines"))
    stage.calm()
    before = stage.group
    stage.restart()
    after = stage.group
    assert after is not before
    assert after.members == before.members
    assert after.target == before.target
    assert after.topology == before.topology
    known = ("epoch", "target_epoch", "metadata_hash", "validated_epoch", "configs", "state_name")
    assert [getattr(after, it) for it in known] == [getattr(before, it) for it in known]
    written = len(stage.log)
    stage.calm()
    assert len(stage.log) == written


def test_members_that_do_not_follow_to_a_new_coordinator_are_missed() -> None:
    stage = two_members()
    stage.calm()
    stage.restart()
    stage.hear("a", 3)
    stage.advance(SESSION_MS - 1)
    stage.hear("a", 3)
    stage.advance(1)
    assert list(stage.group.members) == ["a"]


def test_a_new_coordinator_still_waits_for_what_a_member_must_let_go() -> None:
    stage = two_members()
    stage.hear("a", 2)
    stage.restart()
    for _ in range(REBALANCE_MS // HEARTBEAT_MS):
        for member in tuple(stage.group.members):
            stage.hear(member, stage.group.members[member].epoch)
        stage.advance(HEARTBEAT_MS)
    assert list(stage.group.members) == ["b"]


def test_a_shorter_session_counts_for_members_that_are_there() -> None:
    stage = StreamsStage({"group.streams.min.session.timeout.ms": "6000"})
    stage.topic("lines", 1)
    stage.enter("a", stateless("lines"))
    stage.configure("streams.session.timeout.ms", "6000")
    stage.advance(6_000)
    assert not stage.group.members


def test_a_deleted_group_leaves_nothing_behind() -> None:
    stage = two_members()
    assert stage.group.check_delete() == ErrorCode.NON_EMPTY_GROUP
    for member in "ab":
        stage.hear(member, -1)
    group = stage.group
    assert group.check_delete() == ErrorCode.NONE
    stage.step(lambda _, out: group.delete(out))
    assert not stage.shard.groups
    stage.restart()
    assert not stage.shard.groups
