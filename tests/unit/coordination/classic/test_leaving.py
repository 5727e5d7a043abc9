"""Leaving: at once, many at a time, and by name."""

from __future__ import annotations

from penstock.model.errors import ErrorCode
from tests.unit.coordination.classic.stage import Stage


def test_the_others_rebalance_when_one_leaves() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    assert stage.leave((follower, None)) == [ErrorCode.NONE]
    assert stage.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.join(leader).reply.generation_id == 2


def test_when_the_last_one_leaves_the_group_is_empty_and_in_the_log() -> None:
    stage = Stage()
    [member] = stage.stable()
    stage.leave((member, None))
    assert (stage.group.state_name, stage.group.generation) == ("Empty", 2)
    assert not stage.timers
    stage.reload()
    assert (stage.group.state_name, stage.group.generation) == ("Empty", 2)
    assert stage.group.protocol_type == "consumer"
    assert stage.stable()
    assert stage.group.generation == 3


def test_each_leaver_gets_an_answer_of_its_own() -> None:
    stage = Stage()
    one, _ = stage.stable_static("one", "two")
    answers = stage.leave(("", "two"), ("", "three"), ("", None), (one, "one"), ("stranger", None))
    assert answers == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert stage.group.state_name == "Empty"


def test_nobody_can_leave_a_group_that_does_not_exist() -> None:
    assert Stage().leave(("a", None), ("b", None)) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_who_leaves_while_it_waits_is_told() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    joining = stage.join(leader)
    stage.leave((leader, None))
    assert joining.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert joining.reply.member_id == ""
    again = stage.join(follower)
    assert again.reply.leader == follower
    syncing = stage.sync(follower, generation=1)
    assert syncing.error == ErrorCode.ILLEGAL_GENERATION


def test_who_leaves_while_it_waits_for_its_assignment_is_told() -> None:
    stage = Stage()
    waiting = [stage.join(id_first=False) for _ in range(2)]
    stage.advance(0)
    follower = waiting[1].reply.member_id
    syncing = stage.sync(follower)
    stage.leave((follower, None))
    assert syncing.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_can_be_given_back() -> None:
    stage = Stage()
    [member] = stage.stable()
    promised = stage.join().reply.member_id
    again = stage.join(member)
    assert not again.answered
    assert stage.leave((promised, None)) == [ErrorCode.NONE]
    assert again.error == ErrorCode.NONE


def test_leaving_the_first_rebalance_does_not_end_it() -> None:
    stage = Stage(initial_rebalance_delay_ms=3000)
    first, second = stage.join(id_first=False), stage.join(id_first=False)
    stage.leave((next(iter(stage.group.members)), None))
    assert first.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert not second.answered
    stage.advance(6000)
    assert second.reply.generation_id == 1


def test_when_all_leave_the_first_rebalance_it_ends_with_an_empty_group() -> None:
    stage = Stage(initial_rebalance_delay_ms=3000)
    stage.join(id_first=False)
    stage.leave((next(iter(stage.group.members)), None))
    stage.advance(3000)
    assert stage.group.state_name == "Empty"
