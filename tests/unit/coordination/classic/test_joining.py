"""Joining a classic group: who gets in, when the generation begins, who leads it."""

from __future__ import annotations

import pytest

from penstock.coordination.group.classic import creating, joining
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.group_records import GroupMetadataValue
from tests.unit.coordination.classic.stage import BOTH, RANGE, REBALANCE_MS, SESSION_MS, Stage


def test_a_new_member_is_given_its_id_and_comes_back_with_it() -> None:
    stage = Stage()
    first = stage.join()
    assert first.error == ErrorCode.MEMBER_ID_REQUIRED
    assert first.reply.member_id == "client-00000000-0000-0000-0000-000000000001"
    second = stage.join(first.reply.member_id)
    stage.advance(0)
    assert second.error == ErrorCode.NONE
    assert second.reply.generation_id == 1
    assert second.reply.leader == second.reply.member_id == first.reply.member_id
    assert second.reply.protocol_name == "range"
    assert [it.metadata for it in second.reply.members] == [b"about range"]


def test_an_old_client_is_let_in_without_an_id() -> None:
    stage = Stage()
    joined = stage.join(id_first=False)
    stage.advance(0)
    assert joined.error == ErrorCode.NONE
    assert joined.reply.member_id


def test_a_group_is_in_the_log_before_its_first_member_has_a_generation() -> None:
    stage = Stage()
    stage.join()
    [record] = stage.log
    value = record.value
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.generation, value.members) == ("", 0, [])
    assert (value.protocol, value.leader, record.version) == (None, None, 3)
    assert value.current_state_timestamp == stage.at.wall


def test_a_log_that_refuses_a_new_group_leaves_none_behind() -> None:
    stage = Stage()
    stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.join().error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.join(id_first=False).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not stage.shard.groups
    stage.advance(SESSION_MS)
    stage.refusing = None
    assert stage.join().error == ErrorCode.MEMBER_ID_REQUIRED


def test_an_unknown_member_of_an_unknown_group_is_told_so() -> None:
    stage = Stage()
    answer = stage.join("nobody")
    assert answer.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.reply.member_id == "nobody"
    assert not stage.shard.groups and not stage.log


def test_an_unknown_member_of_a_known_group_is_told_so() -> None:
    stage = Stage()
    stage.stable()
    assert stage.join("nobody").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.join("nobody", instance_id="x").error == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": ()}])
def test_a_member_that_can_do_nothing_is_refused_and_leaves_no_group(fields: object) -> None:
    stage = Stage()
    answer = stage.join(**fields)  # type: ignore[arg-type]
    assert answer.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not stage.shard.groups and not stage.log


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocols": (("x", b""),)}])
def test_a_member_that_does_not_fit_is_refused(fields: object) -> None:
    stage = Stage()
    [member] = stage.stable()
    assert stage.join(**fields).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    again = stage.join(member, **fields)  # type: ignore[arg-type]
    assert again.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert again.reply.member_id == member
    assert stage.group.state_name == "Stable"


def test_the_first_rebalance_waits_for_more_members() -> None:
    stage = Stage(initial_rebalance_delay_ms=3000)
    first = stage.join(id_first=False)
    stage.advance(2999)
    assert not first.answered
    stage.advance(1)
    assert first.error == ErrorCode.NONE


def test_newcomers_prolong_the_first_rebalance_up_to_the_rebalance_timeout() -> None:
    stage = Stage(initial_rebalance_delay_ms=3000)
    waiting = [stage.join(id_first=False, rebalance_timeout_ms=8000)]
    for _ in range(3):
        stage.advance(2000)
        assert not waiting[0].answered
        waiting.append(stage.join(id_first=False, rebalance_timeout_ms=8000))
    # 3 s, then 3 s more, then the 2 s that are left of 8.
    stage.advance(1999)
    assert not waiting[0].answered
    stage.advance(1)
    assert [it.error for it in waiting] == [ErrorCode.NONE] * 4


def test_without_newcomers_the_first_rebalance_ends_after_its_delay() -> None:
    stage = Stage(initial_rebalance_delay_ms=3000)
    waiting = [stage.join(id_first=False)]
    stage.advance(1000)
    waiting.append(stage.join(id_first=False))
    stage.advance(4999)
    assert not waiting[0].answered
    stage.advance(1)
    assert [it.reply.generation_id for it in waiting] == [1, 1]


def test_a_new_member_makes_the_others_join_again() -> None:
    stage = Stage()
    [old] = stage.stable()
    new_id = stage.join().reply.member_id
    new = stage.join(new_id)
    assert not new.answered
    assert stage.beat(old) == ErrorCode.REBALANCE_IN_PROGRESS
    again = stage.join(old)
    assert again.reply.generation_id == new.reply.generation_id == 2
    assert again.reply.leader == new.reply.leader == old
    assert {it.member_id for it in again.reply.members} == {old, new_id}
    assert new.reply.members == []


def test_who_does_not_join_again_in_time_is_out() -> None:
    stage = Stage()
    [old] = stage.stable(session_timeout_ms=REBALANCE_MS * 2)
    new = stage.join(stage.join().reply.member_id)
    stage.advance(REBALANCE_MS - 1)
    assert not new.answered
    stage.advance(1)
    assert new.reply.leader == new.reply.member_id
    assert stage.beat(old) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.join(old).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_somebody_who_was_given_an_id_is_waited_for() -> None:
    stage = Stage()
    [old] = stage.stable()
    promised = stage.join().reply.member_id
    again = stage.join(old)
    assert not again.answered
    new = stage.join(promised)
    assert again.error == new.error == ErrorCode.NONE


def test_an_id_that_nobody_comes_back_with_is_forgotten() -> None:
    stage = Stage()
    [old] = stage.stable()
    promised = stage.join(session_timeout_ms=SESSION_MS).reply.member_id
    again = stage.join(old)
    stage.advance(SESSION_MS)
    assert again.error == ErrorCode.NONE
    assert stage.join(promised).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_protocol_is_what_most_like_best_of_what_all_can_do() -> None:
    stage = Stage()
    sticky_first = tuple(reversed(BOTH))
    waiting = [
        stage.join(id_first=False, protocols=it) for it in (BOTH, sticky_first, sticky_first)
    ]
    stage.advance(0)
    assert {it.reply.protocol_name for it in waiting} == {"sticky"}
    assert {it.metadata for it in waiting[0].reply.members} == {b"about sticky"}
    last = stage.join(id_first=False, protocols=RANGE)
    for member in waiting:
        stage.join(member.reply.member_id, protocols=BOTH)
    assert last.reply.protocol_name == "range"


def test_a_follower_with_nothing_new_disturbs_nobody() -> None:
    stage = Stage()
    _, follower = stage.stable(2)
    answer = stage.join(follower)
    assert (answer.error, answer.reply.generation_id) == (ErrorCode.NONE, 1)
    assert answer.reply.members == []
    assert stage.group.state_name == "Stable"


def test_a_follower_with_another_subscription_causes_a_rebalance() -> None:
    stage = Stage()
    _, follower = stage.stable(2)
    assert not stage.join(follower, protocols=(("range", b"more topics"),)).answered
    assert stage.group.state_name == "PreparingRebalance"


def test_a_leader_that_joins_again_causes_a_rebalance() -> None:
    stage = Stage()
    leader, _ = stage.stable(2)
    assert not stage.join(leader).answered
    assert stage.group.state_name == "PreparingRebalance"


def test_who_missed_the_answer_gets_it_again() -> None:
    stage = Stage()
    leader = stage.join(id_first=False)
    stage.advance(0)
    assert stage.group.state_name == "CompletingRebalance"
    again = stage.join(leader.reply.member_id)
    assert again.reply == leader.reply
    changed = stage.join(leader.reply.member_id, protocols=BOTH)
    assert changed.reply.generation_id == 2


def test_a_member_waits_with_one_request_at_a_time() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    lost = stage.join(first)
    kept = stage.join(first)
    assert lost.error == ErrorCode.REBALANCE_IN_PROGRESS
    stage.join(second)
    assert kept.error == ErrorCode.NONE


def test_a_full_group_takes_nobody_else() -> None:
    stage = Stage(size_max=2)
    first, second = stage.stable(2)
    answer = stage.join()
    assert answer.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.beat(first) == stage.beat(second) == ErrorCode.NONE


def test_a_group_over_a_lowered_bound_turns_the_last_ones_away() -> None:
    stage = Stage()
    ids = stage.stable(3)
    stage.settings = stage.settings._replace(size_max=2)
    stage.reload()
    assert stage.group.state_name == "PreparingRebalance"
    waiting = [stage.join(it) for it in ids]
    assert waiting[2].error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert waiting[0].error == waiting[1].error == ErrorCode.NONE
    assert len(stage.group.members) == 2


def test_ids_that_are_given_out_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "PENDING_MAX", 2)
    stage = Stage()
    stage.join()
    stage.join()
    assert stage.join().error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "GROUPS_MAX", 1)
    stage = Stage()
    stage.join()
    assert stage.join(group_id="other").error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(stage.shard.groups) == ["g"]


def test_a_client_id_too_long_for_a_member_id_is_refused() -> None:
    stage = Stage()
    assert stage.join(client_id="x" * 32_767).error == ErrorCode.INVALID_REQUEST
    assert not stage.shard.groups


def test_a_static_member_cannot_come_with_an_id_that_was_promised_to_another() -> None:
    stage = Stage()
    promised = stage.join().reply.member_id
    answer = stage.join(promised, instance_id="x")
    assert answer.error == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_simple_group_becomes_a_group_with_members() -> None:
    stage = Stage()
    creating.simple_group(stage.shard, "g")
    assert (stage.group.state_name, stage.group.protocol_type) == ("Empty", "")
    assert stage.log == []
    stage.stable()
    assert stage.group.protocol_type == "consumer"


def test_a_group_of_another_kind_takes_no_classic_members() -> None:
    stage = Stage()
    stage.shard.groups["g"] = object()  # type: ignore[assignment]
    assert stage.join().error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
