"""Members that fall silent, or do not let go."""

from __future__ import annotations

from penstock.coordination.group.consumer.hashing import group_hash
from penstock.coordination.group.consumer.member import AWAY, State
from penstock.coordination.group.consumer.sessions import SESSION
from penstock.model.errors import ErrorCode
from tests.unit.coordination.consumer.stage import GROUP_ID, REBALANCE_MS, SESSION_MS, Stage


def _stage(**config: str) -> Stage:
    stage = Stage({key.replace("_", "."): value for key, value in config.items()})
    stage.topic("t", 6)
    stage.join("a", "t")
    return stage


def test_a_member_that_falls_silent_is_fenced() -> None:
    stage = _stage()
    stage.advance(SESSION_MS - 1)
    assert "a" in stage.group.members
    stage.advance(1)
    assert not stage.group.members
    assert stage.say("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_and_cost_one_timer_per_session() -> None:
    stage = _stage()
    for _ in range(100):
        stage.advance(5_000)
        assert stage.say("a", 2).error_code == ErrorCode.NONE
    assert len(stage.timers) == 1
    stage.advance(SESSION_MS)
    assert not stage.group.members


def test_who_is_fenced_frees_what_it_had() -> None:
    stage = _stage()
    stage.join("b", "t")
    stage.advance(SESSION_MS - 1)
    stage.say("b", 3)
    stage.advance(1)
    assert set(stage.group.members) == {"b"}
    stage.settle("b")
    assert stage.held("b") == {"t": [0, 1, 2, 3, 4, 5]}


def test_who_does_not_let_go_in_time_is_fenced() -> None:
    stage = _stage()
    stage.join("b", "t")
    stage.say("a", 2)
    assert stage.group.members["a"].state is State.UNREVOKED_PARTITIONS
    for _ in range(5):
        stage.advance(REBALANCE_MS // 6)
        stage.say("a", 2)
        stage.say("b", 3)
    assert "a" in stage.group.members
    stage.advance(REBALANCE_MS // 6)
    assert set(stage.group.members) == {"b"}


def test_who_lets_go_in_time_stays() -> None:
    stage = _stage()
    stage.join("b", "t")
    stage.settle()
    for _ in range(20):
        stage.advance(5_000)
        stage.say("a", 3)
        stage.say("b", 3)
    assert set(stage.group.members) == {"a", "b"}


def test_a_static_member_that_is_away_keeps_its_place_for_a_session() -> None:
    stage = Stage()
    stage.topic("t", 2)
    stage.join("a", "t", instance_id="one")
    stage.say("a", -2, instance_id="one")
    assert stage.group.members["a"].epoch == AWAY
    epoch = stage.group.epoch
    stage.advance(SESSION_MS - 1)
    back = stage.join("a2", "t", instance_id="one")
    assert back.assignment.topic_partitions[0].partitions == [0, 1]
    assert stage.group.epoch == epoch
    stage.advance(1)
    assert set(stage.group.members) == {"a2"}
    stage.say("a2", -2, instance_id="one")
    stage.advance(SESSION_MS)
    assert not stage.group.members


def test_a_shorter_session_counts_from_now_on() -> None:
    stage = _stage(group_consumer_min_session_timeout_ms="6000")
    stage.configure("consumer.session.timeout.ms", "6000")
    stage.advance(5_999)
    assert stage.group.members
    stage.advance(1)
    assert not stage.group.members


def test_a_new_coordinator_gives_everybody_a_session() -> None:
    stage = _stage()
    stage.join("b", "t")
    stage.say("a", 2)
    stage.mono += SESSION_MS
    stage.restart()
    stage.advance(REBALANCE_MS - 1)
    stage.say("b", 3)
    assert set(stage.group.members) == {"a", "b"}
    stage.advance(1)  # it had not let go
    assert set(stage.group.members) == {"b"}


def test_a_new_coordinator_knows_a_groups_own_session() -> None:
    stage = _stage(group_consumer_min_session_timeout_ms="6000")
    stage.configure("consumer.session.timeout.ms", "6000")
    stage.restart()
    stage.advance(6000)
    assert not stage.group.members


def test_who_comes_back_as_another_process_has_what_it_had() -> None:
    stage = Stage()
    stage.topic("t", 6)
    stage.join("a", "t", instance_id="i")
    stage.join("b", "t", instance_id="j")
    stage.settle()
    held, epoch = stage.held("b"), stage.group.epoch
    taken = stage.say("c", 0, subscribed_topic_names=["t"], instance_id="j")
    assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    stage.say("b", AWAY, instance_id="j")
    assert stage.say("b", 3, instance_id="j").error_code == ErrorCode.FENCED_MEMBER_EPOCH
    stage.join("c", "t", instance_id="j")
    assert (stage.held("c"), stage.group.epoch) == (held, epoch), "nothing moves"
    assert stage.say("b", 3, instance_id="j").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert set(stage.group.members) == set(stage.group.target) == {"a", "c"}
    assert set(stage.timers) == {(SESSION, GROUP_ID, "a"), (SESSION, GROUP_ID, "c")}
    stage.restart()
    assert stage.held("c") == held


def test_who_comes_back_wanting_something_else_has_what_it_had_of_it() -> None:
    stage = Stage()
    stage.topic("t", 6)
    stage.topic("u", 6)
    stage.join("a", "t", "u", instance_id="i")
    stage.join("b", "t", "u", instance_id="j")
    stage.settle()
    held = stage.held("b")["u"]
    stage.say("b", AWAY, instance_id="j")
    stage.join("c", "u", instance_id="j")
    stage.settle()
    assert set(stage.held("c")) == {"u"}
    assert set(held) <= set(stage.held("c")["u"])
    assert set(stage.group.subscriptions.wishes) == {frozenset("tu"), frozenset("u")}
    assert set(stage.group.target) == {"a", "c"}
    assert len(stage.held("a")["t"]) == 6


def test_who_comes_back_wanting_something_else_is_counted_once() -> None:
    stage = Stage()
    stage.topic("t", 1)
    stage.topic("u", 1)
    stage.join("a", "t", instance_id="i")
    stage.settle()
    stage.say("a", AWAY, instance_id="i")
    stage.join("b", "u", instance_id="i")
    epoch = stage.group.epoch
    assert stage.group.metadata_hash == group_hash({"u"}, stage.image, {})
    stage.restart()  # whoever comes next compares what the log says with what there is
    stage.settle()
    assert (stage.group.epoch, stage.held("b")) == (epoch, {"u": [0]})


def test_who_goes_away_holds_nothing_that_it_was_letting_go() -> None:
    stage = Stage()
    stage.topic("t", 6)
    stage.join("a", "t", instance_id="i")
    stage.join("b", "t")
    stage.say("a", 2, instance_id="i")
    assert stage.group.members["a"].state is State.UNREVOKED_PARTITIONS
    stage.say("a", AWAY, instance_id="i")
    stage.settle("b")
    assert len(stage.held("b")["t"]) == 3


def test_nothing_is_left_of_who_is_gone() -> None:
    stage = _stage()
    stage.join("b", "t")
    stage.say("a", 2)
    assert len(stage.timers) == 3, "two sessions, and a to let go"
    stage.settle()
    assert len(stage.timers) == 2
    stage.say("b", -1)
    stage.say("a", -1)
    assert not stage.timers
    assert not stage.group.deadlines


def test_who_dies_while_the_log_refuses_is_fenced_later() -> None:
    stage = _stage()
    stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    stage.advance(2 * SESSION_MS)
    assert "a" in stage.group.members
    stage.refusing = None
    stage.advance(1_000)
    assert not stage.group.members


def test_who_comes_back_shares_with_nobody_that_it_was_before() -> None:
    stage = Stage()
    stage.topic("t", 4)
    stage.topic("u", 4)
    stage.join("a", "t", instance_id="i")
    stage.say("a", AWAY, instance_id="i")
    stage.join("b", "t", "u", instance_id="i")
    stage.settle()
    assert stage.held("b") == {"t": [0, 1, 2, 3], "u": [0, 1, 2, 3]}
    assert set(stage.group.target) == {"b"}
