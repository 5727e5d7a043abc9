"""Heartbeats: who gets what, when, and what it costs."""

from __future__ import annotations

import pytest

from penstock.coordination.group.consumer.checks import check_heartbeat
from penstock.coordination.group.consumer.heartbeat import Client, heartbeat
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.unit.coordination.consumer.stage import (
    GROUP_ID,
    HEARTBEAT_MS,
    Stage,
    Waiting,
    topic_id,
)


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.topic("t", 6)
    return stage


def test_the_first_member_gets_everything(stage: Stage) -> None:
    answer = stage.join("a", "t")
    assert (answer.member_id, answer.member_epoch) == ("a", 2)
    assert answer.heartbeat_interval_ms == HEARTBEAT_MS
    assert answer.assignment.topic_partitions[0].topic_id == topic_id("t")
    assert answer.assignment.topic_partitions[0].partitions == [0, 1, 2, 3, 4, 5]


def test_a_member_without_a_name_is_given_one(stage: Stage) -> None:
    answer = stage.join("", "t")
    assert len(answer.member_id) == 22
    assert answer.member_id in stage.group.members


def test_a_heartbeat_that_says_nothing_new_writes_nothing_and_sets_no_timer(stage: Stage) -> None:
    stage.join("a", "t")
    stage.settle("a")
    written, timers = len(stage.log), dict(stage.timers)
    stage.mono += 1000
    answer = stage.say("a", 2)
    assert (answer.member_epoch, answer.assignment) == (2, None)
    assert (len(stage.log), stage.timers) == (written, timers)


def test_an_assignment_is_told_when_it_changes_or_is_asked_for(stage: Stage) -> None:
    stage.join("a", "t")
    assert stage.say("a", 2).assignment is None
    full = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"]}
    assert stage.say("a", 2, {"t": [0]}, **full).assignment is not None
    assert stage.say("a", 2, {"t": [0]}).assignment is None


def test_partitions_are_handed_over_only_when_they_are_let_go(stage: Stage) -> None:
    stage.join("a", "t")
    assert stage.join("b", "t").assignment.topic_partitions == []
    told = stage.say("a", 2)
    assert told.assignment.topic_partitions[0].partitions == [0, 1, 2]
    assert told.member_epoch == 2
    assert stage.say("b", 3).assignment is None
    assert stage.say("a", 2, {"t": [0, 1, 2]}).member_epoch == 3
    assert stage.say("b", 3).assignment.topic_partitions[0].partitions == [3, 4, 5]
    assert stage.group.state_name == "Stable"


def test_a_member_that_lost_an_answer_may_be_one_epoch_behind(stage: Stage) -> None:
    stage.join("a", "t")
    stage.join("b", "t")
    stage.say("a", 2)
    assert stage.say("a", 2, {"t": [0, 1, 2]}).member_epoch == 3
    assert stage.say("a", 2, {"t": [0, 1]}).error_code == ErrorCode.NONE
    assert stage.say("a", 2, {"t": [0, 5]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.say("a", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.say("a", 4).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_refused_heartbeat_writes_nothing(stage: Stage) -> None:
    stage.join("a", "t")
    written = len(stage.log)
    assert stage.say("a", 9).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.say("z", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.say("z", 0, subscribed_topic_regex="(").error_code
    assert len(stage.log) == written


def test_targets_come_no_faster_than_the_group_allows() -> None:
    stage = Stage({"group.consumer.assignment.interval.ms": "1000"})
    stage.topic("t", 4)
    stage.join("a", "t")
    stage.join("b", "t")
    assert (stage.group.epoch, stage.group.target_epoch) == (3, 2)
    assert stage.group.state_name == "Assigning"
    stage.mono += 999
    stage.say("a", 2)
    assert stage.group.target_epoch == 2
    stage.mono += 1
    stage.say("a", 2)
    assert stage.group.target_epoch == 3


def test_a_coordinator_whose_clock_is_behind_does_not_wait_for_it() -> None:
    stage = Stage({"group.consumer.assignment.interval.ms": "1000"})
    stage.topic("t", 4)
    stage.join("a", "t")
    stage.mono -= 60_000
    stage.restart()
    stage.join("b", "t")
    assert (stage.group.epoch, stage.group.target_epoch) == (3, 3)


def test_a_group_may_have_its_own_pace() -> None:
    stage = Stage({"group.consumer.min.heartbeat.interval.ms": "1000"})
    stage.topic("t", 4)
    assert stage.join("a", "t").heartbeat_interval_ms == HEARTBEAT_MS
    stage.configure("consumer.heartbeat.interval.ms", "1500")
    assert stage.say("a", 2).heartbeat_interval_ms == 1500


def test_most_members_decide_on_the_assignor(stage: Stage) -> None:
    stage.join("a", "t", server_assignor="range")
    stage.join("b", "t")
    assert stage.group.preferred_assignor("uniform") == "range"
    stage.join("c", "t", server_assignor="uniform")
    assert stage.group.preferred_assignor("range") == "uniform"


def test_the_last_log_record_of_a_member_that_is_gone_is_a_tombstone(stage: Stage) -> None:
    stage.join("a", "t")
    stage.say("a", -1)
    last = {repr(record.key): record.value for record in stage.log}
    assert [key for key, value in last.items() if value is not None and "'a'" in key] == []
    assert stage.group.is_empty and stage.group.state_name == "Empty"


def test_a_log_that_refuses_leaves_everything_as_it_was(stage: Stage) -> None:
    stage.join("a", "t")
    stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    before = dict(stage.group.members)
    assert stage.say("b", 0, subscribed_topic_names=["t"]) is None
    assert stage.say("a", 2, subscribed_topic_names=["t", "u"]) is None
    assert stage.group.members == before
    stage.refusing = None
    stage.join("b", "t")
    stage.settle()
    assert len(stage.held("a")["t"]) == len(stage.held("b")["t"]) == 3


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_what_is_wrong_by_itself_is_refused_before_anybody_looks(epoch: int) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id=" ", member_id="a", member_epoch=epoch)
    refusal = check_heartbeat(request, 1, ("uniform",))
    assert refusal is not None and refusal.error == ErrorCode.INVALID_REQUEST
    request.group_id, request.member_id = "g", ""
    refusal = check_heartbeat(request, 1, ("uniform",))
    assert refusal is not None and "MemberId" in refusal.message


def test_groups_without_end_are_refused(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    monkeypatch.setattr("penstock.coordination.group.migration.upgrading.GROUPS_MAX", 0)
    answer = stage.say("a", 0, subscribed_topic_names=["t"])
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_only_the_last_answer_may_be_lost(stage: Stage) -> None:
    stage.join("a", "t")
    for other in ("b", "c"):
        stage.join(other, "t")
        stage.settle()
    member = stage.group.members["a"]
    assert stage.say("a", 2, {}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.say("a", member.previous_epoch, {}).error_code == ErrorCode.NONE


def test_new_topics_are_found_even_if_the_log_refused_them_once(stage: Stage) -> None:
    stage.join("a", "t", "u")
    stage.topic("u", 2)
    stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.say("a", 2) is None
    stage.refusing = None
    stage.settle()
    assert stage.held("a")["u"] == [0, 1]
    assert not stage.group.must_check_topics, "they are looked at once"


def test_what_a_member_says_of_itself_is_kept(stage: Stage) -> None:
    stage.join("a", "t")
    stage.settle()
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP_ID, member_id="a", member_epoch=2, topic_partitions=None
    )
    ticket = Waiting()
    moved = Client("another", "/10.0.0.1")
    stage.step(lambda at, out: heartbeat(stage.shard, at, out, ticket, request, moved))
    assert ticket.reply.error_code == ErrorCode.NONE
    member = stage.group.members["a"]
    assert (member.client_id, member.client_host) == ("another", "/10.0.0.1")


def test_what_a_member_drops_is_free_before_the_next_target() -> None:
    stage = Stage({"group.consumer.assignment.interval.ms": "15000"})
    stage.topic("t", 2)
    stage.topic("u", 2)
    stage.join("a", "t", "u")
    answer = stage.say("a", 2, {"t": [0, 1], "u": [0, 1]}, subscribed_topic_names=["t"])
    assert stage.group.target_epoch == 2, "the next target has to wait"
    assert [it.topic_id for it in answer.assignment.topic_partitions] == [topic_id("t")]


def test_a_member_that_says_nothing_new_must_still_be_who_it_was(stage: Stage) -> None:
    stage.join("a", "t")
    stage.settle()
    assert stage.say("a", 2).error_code == ErrorCode.NONE
    stranger = stage.say("a", 2, instance_id="somebody")
    assert stranger.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_sends_the_new_heartbeat_has_moved_on(stage: Stage) -> None:
    stage.join("a", "t")
    k = stage.classic_join("", "t").reply.member_id
    stage.settle("a")
    assert stage.classic_join(k, "t").reply.error_code == ErrorCode.NONE
    member = stage.group.members[k]
    assert member.classic is not None and member.is_settled_at(stage.group.target_epoch)
    stage.say("a", stage.group.members["a"].epoch)
    assert not stage.group.must_check_topics
    assert stage.say(k, member.epoch).error_code == ErrorCode.NONE
    assert stage.group.members[k].classic is None
    assert stage.group.classic_members == 0
