"""Syncing: the leader's assignment goes into the log, and from there to everyone."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.group_records import GroupMetadataValue
from tests.unit.coordination.classic.stage import REBALANCE_MS, SESSION_MS, Stage, Waiting


def completing(stage: Stage, count: int = 2) -> list[str]:
    """A group that waits for its leader's assignment; the leader's id first."""
    waiting = [stage.join(id_first=False) for _ in range(count)]
    stage.advance(0)
    return sorted(
        (it.reply.member_id for it in waiting), key=lambda it: it != waiting[0].reply.leader
    )


def test_followers_wait_for_the_leader() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    waiting = stage.sync(follower)
    assert not waiting.answered
    leading = stage.sync(leader, {leader: b"l", follower: b"f"})
    assert (leading.reply.assignment, waiting.reply.assignment) == (b"l", b"f")
    assert (waiting.reply.protocol_type, waiting.reply.protocol_name) == ("consumer", "range")
    assert stage.group.state_name == "Stable"


def test_a_follower_that_comes_later_finds_its_assignment() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    stage.sync(leader, {leader: b"l", follower: b"f"})
    assert stage.sync(follower).reply.assignment == b"f"


def test_a_member_that_the_leader_forgot_has_nothing_to_do() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    stage.sync(leader, {leader: b"l", "stranger": b"s"})
    answer = stage.sync(follower)
    assert (answer.error, answer.reply.assignment) == (ErrorCode.NONE, b"")


def test_the_log_holds_the_group_as_kafka_would_write_it() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    stage.sync(leader, {leader: b"l", follower: b"f"})
    record = stage.log[-1]
    value = record.value
    assert isinstance(value, GroupMetadataValue)
    assert record.version == 3
    assert (value.protocol_type, value.protocol, value.generation) == ("consumer", "range", 1)
    assert value.leader == leader
    assert {it.member_id: it.assignment for it in value.members} == {leader: b"l", follower: b"f"}
    member = value.members[0]
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.session_timeout, member.rebalance_timeout) == (SESSION_MS, REBALANCE_MS)
    assert member.subscription == b"about range"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": None, "protocol_name": None}, None),
    ],
)
def test_who_is_wrong_about_the_group_gets_no_assignment(
    fields: dict[str, Any], error: ErrorCode | None
) -> None:
    stage = Stage()
    _, follower = completing(stage)
    answer = stage.sync(follower, **fields)
    if error is None:
        assert not answer.answered, "it has to wait for the leader"
    else:
        assert answer.error == error


def test_strangers_get_nothing() -> None:
    stage = Stage()
    completing(stage)
    assert stage.sync("stranger").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert Stage().sync("stranger").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_calls_the_assignment_off() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    waiting = stage.sync(follower)
    stage.join(id_first=False)
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.sync(leader, {leader: b"l"}).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.group.state_name == "PreparingRebalance"


def test_an_assignment_that_does_not_fit_into_the_log_starts_a_rebalance() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    waiting = stage.sync(follower)
    stage.refusing = ErrorCode.UNKNOWN_SERVER_ERROR  # what a record too large becomes
    leading = stage.sync(leader, {leader: b"l" * 2_000_000})
    assert leading.error == waiting.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.group.state_name == "PreparingRebalance"
    assert stage.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    stage.refusing = None
    again = [stage.join(leader), stage.join(follower)]
    assert [it.reply.generation_id for it in again] == [2, 2]


def test_after_a_refused_assignment_silent_members_still_go() -> None:
    stage = Stage()
    leader, _ = completing(stage)
    stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    stage.sync(leader, {})
    stage.refusing = None
    stage.advance(REBALANCE_MS + SESSION_MS)
    assert stage.group.state_name == "Empty"


def test_a_member_that_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    stage.sync(leader, {leader: b"l", follower: b"f"})
    for _ in range(REBALANCE_MS // 5000 - 1):
        stage.advance(5000)
        assert stage.beat(leader) == stage.beat(follower) == ErrorCode.NONE
    stage.advance(5000)
    assert stage.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_without_its_leaders_assignment_a_group_starts_over() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    waiting = stage.sync(follower)
    for _ in range(REBALANCE_MS // 5000):
        stage.beat(leader)
        stage.advance(5000)
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    again = stage.join(follower)
    assert (again.reply.leader, again.reply.generation_id) == (follower, 2)


def test_a_member_waits_for_its_assignment_with_one_request_at_a_time() -> None:
    stage = Stage()
    leader, follower = completing(stage)
    tickets: list[Waiting] = [stage.sync(follower), stage.sync(follower)]
    assert tickets[0].error == ErrorCode.REBALANCE_IN_PROGRESS
    stage.sync(leader, {follower: b"f"})
    assert tickets[1].reply.assignment == b"f"
