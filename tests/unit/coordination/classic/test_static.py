"""Static members: they come back to their place, and only one of each name can be there."""

from __future__ import annotations

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.group_records import GroupMetadataValue
from tests.unit.coordination.classic.scenes import subscription
from tests.unit.coordination.classic.stage import BOTH, REBALANCE_MS, SESSION_MS, Stage


def test_a_static_member_is_let_in_at_once() -> None:
    stage = Stage()
    joined = stage.join(instance_id="one")
    stage.advance(0)
    assert joined.error == ErrorCode.NONE
    assert joined.reply.member_id.startswith("one-")
    assert joined.reply.members[0].group_instance_id == "one"


def test_a_follower_that_comes_back_finds_its_work_and_disturbs_nobody() -> None:
    stage = Stage()
    leader, follower = stage.stable_static("one", "two")
    work = stage.group.members[follower].assignment
    back = stage.join(instance_id="two")
    new_id = back.reply.member_id
    assert new_id != follower
    assert (back.error, back.reply.generation_id, back.reply.leader) == (ErrorCode.NONE, 1, leader)
    assert not back.reply.skip_assignment and back.reply.members == []
    assert stage.sync(new_id, instance_id="two").reply.assignment == work
    assert stage.group.state_name == "Stable"
    value = stage.log[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert {it.member_id for it in value.members} == {leader, new_id}


def test_a_member_that_comes_back_for_other_topics_is_known_to_want_them() -> None:
    stage = Stage()
    stage.stable_static("one", protocols=(("range", subscription("t")),))
    assert stage.group.topics == frozenset("t")
    back = stage.join(instance_id="one", protocols=(("range", subscription("u")),))
    assert (back.error, stage.group.state_name) == (ErrorCode.NONE, "Stable")
    assert stage.group.topics == frozenset("u")
    stage.reload()
    assert stage.group.topics == frozenset("u")


def test_a_leader_that_comes_back_still_leads_and_is_told_not_to_assign() -> None:
    stage = Stage()
    stage.stable_static("one", "two")
    back = stage.join(instance_id="one")
    assert back.reply.leader == back.reply.member_id
    assert back.reply.skip_assignment
    assert len(back.reply.members) == 2


def test_an_older_leader_that_comes_back_does_not_learn_that_it_leads() -> None:
    stage = Stage()
    leader, _ = stage.stable_static("one", "two")
    back = stage.join(instance_id="one", can_skip=False)
    assert back.reply.leader == leader != back.reply.member_id
    assert not back.reply.skip_assignment and back.reply.members == []


def test_the_old_self_is_fenced() -> None:
    stage = Stage()
    leader, follower = stage.stable_static("one", "two")
    stage.join(instance_id="two")
    assert stage.beat(follower, instance_id="two") == ErrorCode.FENCED_INSTANCE_ID
    assert stage.sync(follower, instance_id="two").error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.join(follower, instance_id="two").error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.commit(follower, 1, instance_id="two") == ErrorCode.FENCED_INSTANCE_ID
    assert stage.leave((follower, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert stage.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.beat(leader, instance_id="one") == ErrorCode.NONE


def test_an_old_self_that_waits_is_fenced_at_once() -> None:
    stage = Stage()
    leader, _ = stage.stable_static("one", "two")
    waiting = stage.join(leader, instance_id="one")
    back = stage.join(instance_id="one")
    assert waiting.error == ErrorCode.FENCED_INSTANCE_ID
    assert waiting.reply.member_id == leader
    assert not back.answered, "it waits for the other one"


def test_who_comes_back_before_the_assignment_starts_a_rebalance() -> None:
    stage = Stage()
    first = stage.join(instance_id="one")
    second = stage.join(instance_id="two")
    stage.advance(0)
    syncing = stage.sync(second.reply.member_id, instance_id="two")
    back = stage.join(instance_id="two")
    assert syncing.error == ErrorCode.FENCED_INSTANCE_ID
    assert stage.group.state_name == "PreparingRebalance"
    again = stage.join(first.reply.member_id, instance_id="one")
    assert again.reply.generation_id == back.reply.generation_id == 2


def test_who_comes_back_with_a_protocol_that_changes_the_choice_starts_a_rebalance() -> None:
    stage = Stage()
    stage.stable_static("one", "two", protocols=BOTH)
    back = stage.join(instance_id="two", protocols=BOTH[1:])
    assert not back.answered
    assert stage.group.state_name == "PreparingRebalance"


def test_if_the_log_refuses_the_new_id_the_old_one_stays() -> None:
    stage = Stage()
    leader, follower = stage.stable_static("one", "two")
    stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    back = stage.join(instance_id="one", session_timeout_ms=1)
    assert back.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.group.leader_id == leader
    assert stage.beat(leader, instance_id="one") == ErrorCode.NONE
    stage.refusing = None
    stage.advance(SESSION_MS - 1)
    assert set(stage.group.members) == {leader, follower}
    stage.advance(1)
    assert not stage.group.members


def test_a_static_member_keeps_its_place_in_a_rebalance_that_it_misses() -> None:
    stage = Stage()
    long = REBALANCE_MS * 3
    _, follower = stage.stable_static("one", "two", session_timeout_ms=long)
    new = stage.join(id_first=False)
    stage.advance(REBALANCE_MS)
    assert new.reply.leader == new.reply.member_id, "who is there leads"
    assert {it.group_instance_id for it in new.reply.members} == {"one", "two", None}
    assert stage.beat(follower, instance_id="two") == ErrorCode.NONE


def test_a_group_of_absent_static_members_waits_until_their_sessions_end() -> None:
    stage = Stage()
    stage.stable_static("one", "two", session_timeout_ms=REBALANCE_MS * 3)
    joining = stage.join(id_first=False)
    stage.leave((next(iter(stage.group.joins)), None))
    assert joining.error == ErrorCode.UNKNOWN_MEMBER_ID
    stage.advance(REBALANCE_MS * 2)
    assert stage.group.state_name == "PreparingRebalance"
    assert len(stage.group.members) == 2
    stage.advance(REBALANCE_MS * 2)
    assert stage.group.state_name == "Empty"


def test_static_members_come_back_after_a_failover() -> None:
    stage = Stage()
    leader, follower = stage.stable_static("one", "two")
    stage.reload()
    assert stage.group.static_ids == {"one": leader, "two": follower}
    assert stage.join(instance_id="two").error == ErrorCode.NONE
    assert stage.group.state_name == "Stable"
