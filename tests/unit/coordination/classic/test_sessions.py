"""Sessions: who is heard of stays, who falls silent goes, and idle groups cost next to nothing."""

from __future__ import annotations

from penstock.model.errors import ErrorCode
from tests.unit.coordination.classic.stage import BOTH, SESSION_MS, Stage


def test_heartbeats_keep_a_member() -> None:
    stage = Stage()
    [member] = stage.stable()
    for _ in range(10):
        stage.advance(SESSION_MS - 1)
        assert stage.beat(member) == ErrorCode.NONE


def test_a_silent_member_is_out_and_the_others_rebalance() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    stage.advance(SESSION_MS - 1)
    assert stage.beat(leader) == ErrorCode.NONE
    stage.advance(1)
    assert stage.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.join(leader).reply.generation_id == 2


def test_the_last_silent_member_leaves_an_empty_group_in_the_log() -> None:
    stage = Stage()
    stage.stable()
    stage.advance(SESSION_MS)
    assert (stage.group.state_name, stage.group.generation) == ("Empty", 2)
    value = stage.log[-1].value
    assert value is not None
    assert (value.members, value.leader, value.protocol) == ([], None, None)  # type: ignore[attr-defined]
    assert value.protocol_type == "consumer"  # type: ignore[attr-defined]
    assert not stage.timers


def test_a_heartbeat_sets_no_timer() -> None:
    stage = Stage()
    [member] = stage.stable()
    before = stage.timers_set
    for _ in range(100):
        stage.advance(SESSION_MS // 10)
        stage.beat(member)
    assert stage.timers_set - before <= 12


def test_a_member_that_has_nothing_to_hear_is_kept_without_a_step() -> None:
    stage = Stage()
    [member] = stage.stable()
    for _ in range(4):
        stage.advance(SESSION_MS - 1)
        assert stage.is_fine(member, 1)
    assert stage.beat(member) == ErrorCode.NONE
    stage.advance(SESSION_MS)
    assert stage.group.state_name == "Empty", "and is missed as soon as it falls silent"


def test_whoever_has_something_to_hear_is_not_fine() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    assert not stage.is_fine(leader, 0), "an old generation"
    assert not stage.is_fine("stranger", 1)
    assert not stage.is_fine(leader, 1, "instance"), "an instance that nobody has"
    stage.join(follower, protocols=BOTH)
    assert stage.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert not stage.is_fine(leader, 1), "it has to join again"


def test_stale_generations_are_fenced() -> None:
    stage = Stage()
    [member] = stage.stable()
    assert stage.beat(member, generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert stage.beat(member, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert stage.beat("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert Stage().beat("stranger", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_the_others_is_alive() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    waiting = stage.join(leader)
    for _ in range(4):
        stage.advance(SESSION_MS - 1)
        stage.beat(follower)
    assert not waiting.answered
    assert leader in stage.group.members
    stage.join(follower)
    assert waiting.error == ErrorCode.NONE
    stage.advance(SESSION_MS)
    assert stage.group.state_name == "Empty", "its session goes on after the wait"


def test_a_first_join_waits_no_longer_than_five_minutes() -> None:
    stage = Stage()
    long = 3_600_000
    [old] = stage.stable(rebalance_timeout_ms=long)
    first = stage.join(id_first=False, rebalance_timeout_ms=long)
    for _ in range(60):
        stage.beat(old)
        stage.advance(5000)
    assert first.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.reply.member_id == ""
    assert list(stage.group.members) == [old]


def test_after_its_first_join_a_members_own_session_counts() -> None:
    stage = Stage()
    joined = stage.join(id_first=False)
    stage.advance(0)
    assert joined.error == ErrorCode.NONE
    stage.advance(SESSION_MS)
    assert not stage.group.members


def test_a_commit_is_a_sign_of_life() -> None:
    stage = Stage()
    [member] = stage.stable()
    stage.advance(SESSION_MS - 1)
    assert stage.commit(member, 1) == ErrorCode.NONE
    stage.advance(SESSION_MS - 1)
    assert stage.beat(member) == ErrorCode.NONE


def test_after_a_failover_members_have_a_session_to_show_themselves() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    stage.reload()
    stage.advance(SESSION_MS - 1)
    assert stage.beat(leader) == ErrorCode.NONE
    stage.advance(1)
    assert list(stage.group.members) == [leader]
    assert follower not in stage.group.members


def test_a_rebalance_waits_for_no_session_that_has_ended() -> None:
    stage = Stage()
    stage.stable(3)
    new = stage.join(id_first=False)
    stage.advance(SESSION_MS - 1)
    assert not new.answered
    stage.advance(1)
    assert (new.reply.generation_id, len(new.reply.members)) == (2, 1)
    stage.advance(SESSION_MS)
    assert stage.group.state_name == "Empty"
