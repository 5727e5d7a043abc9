"""How the records of consumer groups change a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.member import LEFT, NOTHING, Held, Member, State
from penstock.coordination.group.consumer.subscriptions import Resolved
from penstock.model.invariants import invariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.coordination.group.shard import GroupShard, Replay
    from penstock.protocol.generated import group_records as records

_STATES = {int(state): state for state in State}
_NO_EPOCH = -1


def _group(shard: GroupShard, group_id: str, create: bool) -> ConsumerGroup | None:
    """The group that a record is about. A classic one without members gives way."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if not create:
        return None
    made = isinstance(group, ClassicGroup) and not group.members
    invariant(group is None or made, f"{group_id!r} is a {group and group.kind} group")
    new = shard.groups[group_id] = ConsumerGroup(group_id)
    return new


def _replay_epoch(
    shard: GroupShard,
    _offset: int,
    key: records.ConsumerGroupMetadataKey,
    value: records.ConsumerGroupMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if value is None:
        if group is not None:
            del shard.groups[key.group_id]
            shard.consumers.forget_paces([key.group_id])
        return
    assert group is not None
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _replay_partition_metadata(
    shard: GroupShard,
    _offset: int,
    key: records.ConsumerGroupPartitionMetadataKey,
    value: records.ConsumerGroupPartitionMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is not None:
        group.has_partition_metadata = value is not None


def _replay_member(
    shard: GroupShard,
    _offset: int,
    key: records.ConsumerGroupMemberMetadataKey,
    value: records.ConsumerGroupMemberMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    if value is None:
        group.remove(key.member_id)
        return
    old = group.members.get(key.member_id) or Member(key.member_id)
    group.put(
        old._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=group.subscriptions.shared(frozenset(value.subscribed_topic_names)),
            regex=value.subscribed_topic_regex,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
    )


def _replay_target_epoch(
    shard: GroupShard,
    _offset: int,
    key: records.ConsumerGroupTargetAssignmentMetadataKey,
    value: records.ConsumerGroupTargetAssignmentMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    group.target_epoch = _NO_EPOCH if value is None else value.assignment_epoch
    group.target_at = 0 if value is None else value.assignment_timestamp


def _replay_target(
    shard: GroupShard,
    _offset: int,
    key: records.ConsumerGroupTargetAssignmentMemberKey,
    value: records.ConsumerGroupTargetAssignmentMemberValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = {
            it.topic_id: frozenset(it.partitions) for it in value.topic_partitions
        }


def _replay_current(
    shard: GroupShard,
    _offset: int,
    key: records.ConsumerGroupCurrentMemberAssignmentKey,
    value: records.ConsumerGroupCurrentMemberAssignmentValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    old = group.members.get(key.member_id)
    if value is None:
        if old is not None:
            group.put(
                old._replace(epoch=LEFT, previous_epoch=LEFT, assigned=NOTHING, revoking=NOTHING)
            )
        return
    group.put(
        (old or Member(key.member_id))._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, State.UNKNOWN),
            assigned=_held(value.assigned_partitions, value.member_epoch),
            revoking=_held(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _held(
    topics: Sequence[records.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions],
    epoch: int,
) -> Held:
    """Older versions do not say since when: then since the member's epoch."""
    held: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        since = topic.assignment_epochs
        if since is None or len(since) != len(topic.partitions):
            since = [max(epoch, 0)] * len(topic.partitions)
        held[topic.topic_id] = dict(zip(topic.partitions, since, strict=True))
    return held


def _replay_regex(
    shard: GroupShard,
    _offset: int,
    key: records.ConsumerGroupRegularExpressionKey,
    value: records.ConsumerGroupRegularExpressionValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    if value is None:
        group.subscriptions.resolved.pop(key.regular_expression, None)
    else:
        found = Resolved(frozenset(value.topics), value.version, value.timestamp)
        group.subscriptions.resolved[key.regular_expression] = found


REPLAY: dict[int, Replay] = {
    3: _replay_epoch,
    4: _replay_partition_metadata,
    5: _replay_member,
    6: _replay_target_epoch,
    7: _replay_target,
    8: _replay_current,
    16: _replay_regex,
}
