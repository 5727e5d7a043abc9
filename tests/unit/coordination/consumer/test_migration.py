"""Groups that change their protocol while they run."""

from __future__ import annotations

import pytest

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.states import State
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.migration.embedded import (
    read_assignment,
    version_of,
    write_assignment,
)
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from penstock.protocol.primitives import ProtocolError
from tests.unit.coordination.consumer.stage import (
    GROUP_ID,
    REBALANCE_MS,
    SESSION_MS,
    Stage,
    topic_id,
)


def _assignment(*numbers: int, user_data: bytes | None = None) -> bytes:
    out = bytearray(b"\0\1")
    topics = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=list(numbers))]
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data)
    assignment.write(1, out)
    return bytes(out)


def _given(stage: Stage, member_id: str, generation: int) -> list[int]:
    reply = stage.classic_sync(member_id, generation).reply
    assert reply.error_code == ErrorCode.NONE, reply
    topics = read_assignment(reply.assignment).assigned_partitions
    return list(topics[0].partitions) if topics else []


def _classic_stage(
    policy: str = "bidirectional", assignment: bytes | None = None, **config: str
) -> tuple[Stage, str]:
    """A stable classic group of one member that has four partitions."""
    extra = {key.replace("_", "."): value for key, value in config.items()}
    stage = Stage({"group.consumer.migration.policy": policy, **extra})
    stage.topic("t", 4)
    member_id = stage.classic_join("", "t").reply.member_id
    made = _assignment(0, 1, 2, 3) if assignment is None else assignment
    assert not stage.classic_sync(member_id, 1, {member_id: made}).reply.error_code
    return stage, member_id


def test_a_classic_group_goes_on_as_a_consumer_group() -> None:
    stage, k = _classic_stage()
    assert isinstance(stage.shard.groups[GROUP_ID], ClassicGroup)
    assert stage.join("a", "t").assignment.topic_partitions == []
    assert stage.group.members[k].classic is not None
    assert stage.held(k) == {"t": [0, 1, 2, 3]}
    assert stage.classic_beat(k, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    reply = stage.classic_join(k, "t", owned={"t": [0, 1, 2, 3]}).reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, "")
    assert _given(stage, k, 1) == [0, 1]
    reply = stage.classic_join(k, "t", owned={"t": [0, 1]}).reply
    assert reply.generation_id == 2
    assert _given(stage, k, 2) == [0, 1]
    assert stage.say("a", 2).assignment.topic_partitions[0].partitions == [2, 3]
    assert stage.classic_beat(k, 2) == ErrorCode.NONE


def test_who_waits_in_the_classic_group_is_told_to_join_again() -> None:
    stage, k = _classic_stage()
    late = stage.classic_join("", "t")
    assert late.reply is None
    stage.join("a", "t")
    assert late.reply is not None and late.reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert k in stage.group.members


def test_a_conversion_that_fails_leaves_the_classic_group_alone() -> None:
    stage, k = _classic_stage()
    late = stage.classic_join("", "t")
    answer = stage.say("a", 0, subscribed_topic_regex="(")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert late.reply is None
    group = stage.shard.groups[GROUP_ID]
    assert isinstance(group, ClassicGroup) and k in group.members


@pytest.mark.parametrize(
    ("policy", "assignment", "config"),
    [
        ("disabled", None, {}),
        ("downgrade", None, {}),
        ("bidirectional", _assignment(0, user_data=b"of mine"), {}),
        ("bidirectional", b"\0\1\7", {}),
        ("bidirectional", b"\0", {}),
    ],
)
def test_a_classic_group_that_cannot_be_upgraded_stays(
    policy: str, assignment: bytes | None, config: dict[str, str]
) -> None:
    stage, _ = _classic_stage(policy, assignment, **config)
    answer = stage.say("a", 0, subscribed_topic_names=["t"])
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(stage.shard.groups[GROUP_ID], ClassicGroup)


def test_the_last_member_of_the_new_protocol_takes_it_along() -> None:
    stage, k = _classic_stage()
    stage.join("a", "t")
    stage.say("a", -1)
    stage.advance(0)
    group = stage.shard.groups[GROUP_ID]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING
    assert stage.classic_beat(k, group.generation) == ErrorCode.REBALANCE_IN_PROGRESS
    reply = stage.classic_join(k, "t").reply
    assert (reply.error_code, reply.leader) == (0, k)
    assert _kept(stage) == {k: [0, 1]}


def _kept(stage: Stage) -> dict[str, list[int]]:
    """What the log's last record of the classic group gives its members."""
    value = [it.value for it in stage.log if it.key.API_KEY == 2][-1]
    found = {}
    for member in value.members:  # type: ignore[union-attr]
        topics = read_assignment(bytes(member.assignment)).assigned_partitions
        found[member.member_id] = list(topics[0].partitions)
    return found


def test_a_group_that_was_downgraded_is_so_for_the_next_coordinator() -> None:
    stage, k = _classic_stage()
    stage.join("a", "t")
    stage.say("a", -1)
    stage.restart()
    group = stage.shard.groups[GROUP_ID]
    assert isinstance(group, ClassicGroup) and set(group.members) == {k}
    stage.advance(SESSION_MS)
    assert not group.members


def test_a_silent_member_of_the_new_protocol_takes_it_along_as_well() -> None:
    stage, k = _classic_stage()
    stage.join("a", "t")
    stage.advance(SESSION_MS - 1)
    stage.classic_join(k, "t")
    stage.advance(1)
    assert isinstance(stage.shard.groups[GROUP_ID], ClassicGroup)


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_without_leave_to_downgrade_a_group_stays_what_it_is(policy: str) -> None:
    stage = Stage({"group.consumer.migration.policy": policy})
    stage.topic("t", 2)
    stage.join("a", "t")
    k = stage.classic_join("", "t").reply.member_id
    stage.say("a", -1)
    stage.advance(0)
    assert set(stage.group.members) == {k}
    assert stage.classic_beat(k, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.classic_join(k, "t").reply.generation_id == 4
    assert _given(stage, k, 4) == [0, 1]
    assert stage.classic_leave(k) == [ErrorCode.NONE]
    assert stage.group.is_empty


def test_a_static_member_comes_back_with_the_classic_protocol() -> None:
    stage = Stage()
    stage.topic("t", 4)
    stage.join("a", "t", instance_id="one")
    stage.say("a", -2, instance_id="one")
    reply = stage.classic_join("", "t", instance_id="one").reply
    assert (reply.error_code, reply.generation_id) == (0, 2)
    stage.advance(0)
    group = stage.shard.groups[GROUP_ID]
    assert isinstance(group, ClassicGroup) and group.state is State.STABLE
    assert _given(stage, reply.member_id, 2) == [0, 1, 2, 3]


def test_a_static_member_that_came_back_with_the_classic_protocol_and_fell_silent_is_missed() -> (
    None
):
    stage = Stage()
    stage.topic("t", 4)
    stage.join("a", "t", instance_id="one")
    stage.say("a", -2, instance_id="one")
    stage.classic_join("", "t", instance_id="one")
    group = stage.shard.groups[GROUP_ID]
    assert isinstance(group, ClassicGroup) and group.members
    stage.advance(SESSION_MS + REBALANCE_MS)
    assert not group.members


def test_a_classic_member_moves_to_the_new_protocol_by_its_instance_id() -> None:
    stage = Stage()
    stage.topic("t", 2)
    stage.join("a", "t")
    k = stage.classic_join("", "t", instance_id="one").reply.member_id
    stage.settle("a")
    answer = stage.say("k2", 0, subscribed_topic_names=["t"], instance_id="one")
    assert answer.error_code == ErrorCode.NONE
    assert k not in stage.group.members
    assert stage.group.classic_members == 0


def test_an_empty_consumer_group_gives_way_to_a_classic_one() -> None:
    stage = Stage()
    stage.topic("t", 1)
    stage.join("a", "t")
    stage.say("a", -1)
    unknown = stage.classic_join("who", "t").reply
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(stage.shard.groups[GROUP_ID], ConsumerGroup)
    stage.refusing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    stage.classic_join("", "t")
    assert isinstance(stage.shard.groups[GROUP_ID], ConsumerGroup)
    stage.refusing = None
    assert stage.classic_join("", "t").reply.error_code == ErrorCode.NONE
    assert isinstance(stage.shard.groups[GROUP_ID], ClassicGroup)
    stage.restart()
    assert isinstance(stage.shard.groups[GROUP_ID], ClassicGroup)


def test_classic_members_must_have_something_in_common() -> None:
    stage = Stage()
    stage.topic("t", 2)
    stage.join("a", "t")
    assert not stage.classic_join("", "t", names=("range", "sticky")).reply.error_code
    assert not stage.classic_join("", "t", names=("sticky",)).reply.error_code
    refused = stage.classic_join("", "t", names=("range",)).reply
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_subscription_that_makes_no_sense_is_refused() -> None:
    stage = Stage()
    stage.topic("t", 2)
    stage.join("a", "t")
    for said in (b"", b"\0", b"\0\1\0\0\0\7", b"\xff\xff\0\0\0\0"):
        reply = stage.classic_join("", said=said).reply
        assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert set(stage.group.members) == {"a"}


def test_a_full_group_takes_no_classic_members() -> None:
    stage = Stage({"group.consumer.max.size": "1"})
    stage.topic("t", 2)
    stage.join("a", "t")
    reply = stage.classic_join("", "t").reply
    assert reply.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_classic_member_that_does_not_join_again_in_time_is_fenced() -> None:
    stage = Stage()
    stage.topic("t", 2)
    stage.join("a", "t")
    k = stage.classic_join("", "t").reply.member_id
    assert stage.classic_sync(k, 3).reply.error_code == ErrorCode.NONE
    stage.join("c", "t")
    for _ in range(5):
        assert stage.classic_beat(k, 3) == ErrorCode.REBALANCE_IN_PROGRESS
        stage.advance(REBALANCE_MS // 5)
    assert k not in stage.group.members


def test_a_classic_member_that_does_not_sync_in_time_is_fenced() -> None:
    stage = Stage()
    stage.topic("t", 2)
    stage.join("a", "t")
    k = stage.classic_join("", "t").reply.member_id
    stage.advance(REBALANCE_MS - 1)
    assert k in stage.group.members
    stage.advance(1)
    assert k not in stage.group.members


def test_a_classic_member_that_falls_silent_after_the_upgrade_is_fenced() -> None:
    stage, k = _classic_stage()
    stage.join("a", "t")
    for _ in range(10):
        stage.advance(SESSION_MS // 10)
        stage.say("a", 2)
    assert set(stage.group.members) == {"a"}
    stage.settle()
    assert stage.held("a") == {"t": [0, 1, 2, 3]}
    assert {key[2] for key in stage.timers if isinstance(key, tuple) and len(key) == 3} == {"a"}
    assert k not in stage.group.target


def test_a_classic_member_that_falls_silent_after_the_downgrade_is_expelled() -> None:
    stage, k = _classic_stage()
    stage.join("a", "t")
    stage.say("a", -1)
    stage.advance(0)
    assert not [key for key in stage.timers if isinstance(key, tuple) and "a" in key]
    # It does not even join the rebalance that the downgrade begins.
    stage.advance(SESSION_MS + REBALANCE_MS)
    group = stage.shard.groups[GROUP_ID]
    assert isinstance(group, ClassicGroup) and k not in group.members


def test_a_classic_member_joins_again_as_soon_as_the_others_have_let_go() -> None:
    stage = Stage()
    stage.topic("t", 4)
    stage.join("a", "t")
    k = stage.classic_join("", "t").reply.member_id
    assert _given(stage, k, 3) == []
    assert stage.classic_beat(k, 3) == ErrorCode.NONE, "nobody has let go of anything"
    stage.settle("a")
    assert stage.classic_beat(k, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.classic_join(k, "t").reply.generation_id == 3
    mine = _given(stage, k, 3)
    assert len(mine) == 2
    # With something of its own it waits for more in the same way.
    stage.topic("t", 6, first=4)
    stage.say("a", stage.group.members["a"].epoch, {"t": stage.held("a")["t"]})
    assert stage.classic_beat(k, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    generation = stage.classic_join(k, "t", owned={"t": mine}).reply.generation_id
    assert len(_given(stage, k, generation)) == 3
    assert stage.classic_beat(k, generation) == ErrorCode.NONE


def test_a_classic_member_waits_for_what_it_lacks_and_not_for_what_it_has() -> None:
    stage = Stage()
    stage.topic("t", 6)
    stage.join("a", "t")
    stage.join("b", "t")
    stage.settle()
    k = stage.classic_join("", "t").reply.member_id
    assert _given(stage, k, 4) == []
    stage.settle("a")  # one of the two has let go
    assert stage.classic_beat(k, 4) == ErrorCode.NONE
    mine = stage.classic_join(k, "t").reply.generation_id
    assert len(_given(stage, k, mine)) == 1
    assert stage.classic_beat(k, 4) == ErrorCode.NONE
    stage.settle("b")
    assert stage.classic_beat(k, 4) == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_asks_for_its_part_of_an_old_target_is_sent_to_join_again() -> None:
    stage = Stage()
    stage.topic("t", 4)
    stage.join("a", "t")
    k = stage.classic_join("", "t").reply.member_id
    stage.join("b", "t")
    assert stage.classic_sync(k, 3).reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert k in stage.group.rejoining


def test_a_classic_group_that_gives_a_partition_twice_is_not_upgraded() -> None:
    stage, k = _classic_stage()
    late = stage.classic_join("", "t")
    stage.classic_join(k, "t", owned={"t": [0, 1, 2, 3]})
    group = stage.shard.groups[GROUP_ID]
    assert isinstance(group, ClassicGroup) and late.reply is not None
    made = {k: _assignment(0, 1), late.reply.member_id: _assignment(1, 2)}
    assert not stage.classic_sync(k, group.generation, made).reply.error_code
    answer = stage.say("a", 0, subscribed_topic_names=["t"])
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.shard.groups[GROUP_ID] is group


def test_a_commit_of_a_classic_member_names_its_generation() -> None:
    stage, k = _classic_stage()
    stage.join("a", "t")
    assert stage.group.check_fetch(k, 1) == ErrorCode.NONE
    assert stage.group.check_fetch(k, 7) == ErrorCode.ILLEGAL_GENERATION


def test_assignments_leave_out_topics_that_are_gone() -> None:
    stage = Stage()
    stage.topic("t", 2)
    data = write_assignment({topic_id("t"): {1, 0}, b"g" * 16: {5}}, stage.image.topics, 3)
    assert version_of(data) == 3
    topics = read_assignment(data).assigned_partitions
    assert [(it.topic, it.partitions) for it in topics] == [("t", [0, 1])]
    with pytest.raises(ProtocolError):
        read_assignment(b"\0")
