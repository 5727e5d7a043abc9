"""What a new coordinator knows, also of groups that others wrote."""

from __future__ import annotations

from penstock.coordination.effects import NewRecord
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.member import State
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import group_records as records
from tests.unit.coordination.consumer.stage import GROUP_ID, Stage, topic_id


def _facts(group: ConsumerGroup) -> dict[str, object]:
    return {
        "members": group.members,
        "epochs": (group.epoch, group.target_epoch, group.metadata_hash),
        "target": group.target,
        "holders": group.holders,
        "names": group.subscriptions.names,
        "regexes": group.subscriptions.regexes,
        "resolved": group.subscriptions.resolved,
        "static": group.static_ids,
    }


def test_a_new_coordinator_goes_on_where_the_old_one_stopped() -> None:
    stage = Stage()
    stage.topic("t", 5)
    stage.join("a", "t", instance_id="one")
    stage.say("b", 0, subscribed_topic_regex="t")
    stage.join("c", "t")
    stage.say("a", 2, instance_id="one")
    stage.say("c", -1)
    before = _facts(stage.group)
    stage.restart()
    assert _facts(stage.group) == before
    stage.settle()
    assert sorted(stage.held("a")["t"] + stage.held("b")["t"]) == [0, 1, 2, 3, 4]


def test_topics_that_changed_while_nobody_coordinated_are_noticed() -> None:
    stage = Stage()
    stage.topic("t", 1)
    stage.join("a", "t")
    stage.topic("t", 3, first=1)
    stage.restart()
    stage.settle()
    assert stage.held("a") == {"t": [0, 1, 2]}


def _key(name: str) -> dict[str, str]:
    return {"group_id": GROUP_ID, "member_id": name}


def test_records_of_kafka_4_0_are_understood_and_brought_up_to_date() -> None:
    """They say nothing of epochs of partitions, and describe topics in a record of their own."""
    stage = Stage()
    stage.topic("t", 1)
    held = records.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(
        topic_id=topic_id("t"), partitions=[0], assignment_epochs=None
    )
    stage.log = [
        NewRecord(
            records.ConsumerGroupMemberMetadataKey(**_key("a")),
            records.ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                server_assignor=None,
                subscribed_topic_names=["t"],
                classic_member_metadata=None,
                client_id="client",
                client_host="/127.0.0.1",
            ),
            0,
        ),
        NewRecord(
            records.ConsumerGroupMetadataKey(group_id=GROUP_ID),
            records.ConsumerGroupMetadataValue(epoch=7),
            0,
        ),
        NewRecord(
            records.ConsumerGroupPartitionMetadataKey(group_id=GROUP_ID),
            records.ConsumerGroupPartitionMetadataValue(),
            0,
        ),
        NewRecord(
            records.ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP_ID),
            records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=7),
            0,
        ),
        NewRecord(
            records.ConsumerGroupCurrentMemberAssignmentKey(**_key("a")),
            records.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=7, previous_member_epoch=6, assigned_partitions=[held]
            ),
            0,
        ),
    ]
    stage.restart()
    assert stage.group.members["a"].assigned == {topic_id("t"): {0: 7}}
    stage.settle()
    assert stage.held("a") == {"t": [0]}
    assert not stage.group.has_partition_metadata
    written = [it for it in stage.log if it.key.API_KEY == 4]
    assert written[-1].value is None


def test_a_state_of_a_newer_version_fences_its_member() -> None:
    stage = Stage()
    stage.topic("t", 1)
    stage.join("a", "t")
    value = stage.log[-1].value
    assert isinstance(value, records.ConsumerGroupCurrentMemberAssignmentValue)
    value.state = 99
    stage.restart()
    assert stage.group.members["a"].state is State.UNKNOWN
    assert stage.say("a", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    stage.join("a", "t")
    assert stage.held("a") == {"t": [0]}


def test_tombstones_of_what_is_not_known_change_nothing() -> None:
    stage = Stage()
    for key in (
        records.ConsumerGroupMetadataKey(group_id="x"),
        records.ConsumerGroupPartitionMetadataKey(group_id="x"),
        records.ConsumerGroupMemberMetadataKey(group_id="x", member_id="a"),
        records.ConsumerGroupTargetAssignmentMetadataKey(group_id="x"),
        records.ConsumerGroupTargetAssignmentMemberKey(group_id="x", member_id="a"),
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id="x", member_id="a"),
        records.ConsumerGroupRegularExpressionKey(group_id="x", regular_expression="r"),
    ):
        stage.shard.replay(0, key, None, -1)
    assert not stage.shard.groups


def test_a_deleted_group_is_gone_for_the_next_coordinator_too() -> None:
    stage = Stage()
    stage.topic("t", 1)
    stage.join("a", "t")
    assert stage.group.check_delete() == ErrorCode.NON_EMPTY_GROUP
    stage.say("a", -1)
    assert stage.group.check_delete() == ErrorCode.NONE
    stage.step(lambda _, out: stage.group.delete(out))
    assert not stage.shard.groups
    stage.restart()
    assert not stage.shard.groups
