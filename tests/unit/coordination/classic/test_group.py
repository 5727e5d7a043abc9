"""What a classic group answers to those who commit, fetch, delete and clean up; and its record."""

from __future__ import annotations

import struct

import pytest

from penstock.coordination.effects import Effects
from penstock.coordination.group.classic.creating import simple_group
from penstock.coordination.group.classic.describing import describe
from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.states import NEXT, Event, State
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.model.invariants import InvariantViolated
from penstock.protocol.generated.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.generated.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tests.unit.coordination.classic.stage import Stage


def subscription(*topics: str, version: int = 3) -> bytes:
    said = ConsumerProtocolSubscription(topics=list(topics))
    return struct.pack(">h", version) + said.encode(version)


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("known", 1, ErrorCode.NONE),
        ("known", 0, ErrorCode.ILLEGAL_GENERATION),
        ("known", -1, ErrorCode.ILLEGAL_GENERATION),
        ("stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_members_of_this_generation_commit(
    member: str, generation: int, error: ErrorCode
) -> None:
    stage = Stage()
    [known] = stage.stable()
    assert stage.commit(known if member == "known" else member, generation) == error


def test_anyone_commits_to_an_empty_group_and_nobody_as_a_member() -> None:
    stage = Stage()
    simple_group(stage.shard, "g")
    assert stage.commit("", -1) == ErrorCode.NONE
    assert stage.commit("", 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.commit("stranger", 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_commits_between_joining_and_syncing_but_in_transactions() -> None:
    stage = Stage()
    member = stage.join(id_first=False)
    stage.advance(0)
    member_id = member.reply.member_id
    assert stage.commit(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.commit(member_id, 1, is_transactional=True) == ErrorCode.NONE
    assert stage.commit(member_id, 0, is_transactional=True) == ErrorCode.ILLEGAL_GENERATION
    assert stage.commit("", -1, is_transactional=True) == ErrorCode.NONE


def test_the_generation_before_still_commits_while_the_next_is_prepared() -> None:
    stage = Stage()
    [member] = stage.stable()
    stage.join(id_first=False)
    assert stage.commit(member, 1) == ErrorCode.NONE


def test_topics_of_all_members_are_in_use() -> None:
    stage = Stage()
    said = [subscription("a", "b"), subscription("c", version=0)]
    waiting = [stage.join(id_first=False, protocols=(("range", it),)) for it in said]
    stage.advance(0)
    assert stage.group.topics == frozenset("abc")
    assert stage.group.subscribes_to("c") and not stage.group.subscribes_to("d")
    stage.sync(waiting[0].reply.leader)
    stage.reload()
    assert stage.group.topics == frozenset("abc")


def test_what_cannot_be_read_counts_as_in_use() -> None:
    stage = Stage()
    stage.stable(protocols=(("range", b"\0"),))
    assert stage.group.topics is None
    assert stage.group.subscribes_to("anything")


def test_of_other_protocol_types_everything_is_in_use() -> None:
    stage = Stage()
    joined = stage.join(id_first=False, protocol_type="connect")
    stage.advance(0)
    stage.sync(joined.reply.leader, protocol_type="connect")
    assert stage.group.subscribes_to("anything")
    stage.leave((joined.reply.leader, None))
    assert not stage.group.subscribes_to("anything")


def test_retention_counts_from_when_the_last_member_left() -> None:
    stage = Stage()
    simple_group(stage.shard, "g")
    assert stage.group.offsets_expire_from() is None
    [member] = stage.stable()
    assert stage.group.offsets_expire_from() is None
    stage.advance(1234)
    stage.leave((member, None))
    assert stage.group.offsets_expire_from() == stage.at.wall


def test_only_an_empty_group_is_deleted() -> None:
    stage = Stage()
    [member] = stage.stable()
    assert stage.group.check_delete() == ErrorCode.NON_EMPTY_GROUP
    stage.leave((member, None))
    group = stage.group
    assert group.check_delete() == ErrorCode.NONE
    stage.step(lambda _, out: group.delete(out))
    assert not stage.shard.groups
    assert group.state is State.DEAD
    assert stage.log[-1].value is None
    stage.reload()
    assert not stage.shard.groups


def test_a_stable_group_is_described_with_all_that_was_said() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    told = describe(stage.shard, "g")
    assert (told.group_state, told.protocol_type, told.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [it.member_id for it in told.members] == [leader, follower]
    member = told.members[0]
    assert member.member_metadata == b"about range"
    assert member.member_assignment == b"work of " + leader.encode()
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    stage.join(leader)
    told = describe(stage.shard, "g")
    assert (told.group_state, told.protocol_data) == ("PreparingRebalance", "")
    assert told.members[0].member_metadata == b""


def test_a_group_that_is_not_there_is_dead() -> None:
    told = describe(Stage().shard, "g")
    assert (told.group_state, told.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert told.error_message == "Group g not found."


def test_what_an_old_version_wrote_is_understood() -> None:
    stage = Stage()
    member = MemberMetadata(member_id="m", session_timeout=7000, subscription=subscription("a"))
    value = GroupMetadataValue(
        protocol_type="consumer", generation=5, protocol="range", leader="m", members=[member]
    )
    stage.step(lambda _, out: out.record(GroupMetadataKey(group="g"), value, 0))
    group = stage.group
    assert (group.state, group.generation, group.leader_id) == (State.STABLE, 5, "m")
    assert group.since is None
    assert group.members["m"].rebalance_timeout_ms == 7000
    assert group.topics == frozenset("a")


def test_a_loaded_group_goes_on_as_it_was() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    stage.reload()
    assert stage.beat(leader) == stage.beat(follower) == ErrorCode.NONE
    assert stage.sync(follower).reply.assignment == b"work of " + follower.encode()
    assert stage.join(follower).error == ErrorCode.NONE
    assert stage.commit(follower, 1) == ErrorCode.NONE
    stage.join(leader)
    assert stage.group.state_name == "PreparingRebalance"


def test_the_table_leads_from_empty_to_everywhere_and_from_death_nowhere() -> None:
    reached, frontier = {State.EMPTY}, [State.EMPTY]
    while frontier:
        state = frontier.pop()
        for (before, _), after in NEXT.items():
            if before is state and after not in reached:
                reached.add(after)
                frontier.append(after)
    assert reached == set(State)
    assert not [event for (before, event) in NEXT if before is State.DEAD]


def test_a_move_that_is_not_in_the_table_stops_the_step() -> None:
    group = ClassicGroup("g")
    with pytest.raises(InvariantViolated, match="ASSIGNED in Empty"):
        group.move(Event.ASSIGNED, Millis(0))


def test_deleting_writes_one_tombstone() -> None:
    out = Effects()
    ClassicGroup("g").delete(out)
    assert [(it.key, it.value) for it in out.records] == [(GroupMetadataKey(group="g"), None)]
