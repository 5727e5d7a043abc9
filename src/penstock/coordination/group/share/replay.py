"""How the records of share groups change a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.member import LEFT, NOTHING, Member
from penstock.coordination.group.share.readiness import Readiness, Topic, Topics
from penstock.model.invariants import invariant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.group.shard import GroupShard, Replay
    from penstock.protocol.generated import group_records as records

_NO_EPOCH = -1


def _group(shard: GroupShard, group_id: str, create: bool) -> ShareGroup | None:
    """The group that a record is about. A classic one without members gives way."""
    group = shard.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if not create:
        return None
    gives_way = isinstance(group, ClassicGroup) and not group.members
    invariant(group is None or gives_way, f"{group_id!r} is a {group and group.kind} group")
    new = shard.groups[group_id] = ShareGroup(group_id)
    return new


def _replay_member(
    shard: GroupShard,
    _offset: int,
    key: records.ShareGroupMemberMetadataKey,
    value: records.ShareGroupMemberMetadataValue | None,
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
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )
    )


def _replay_epoch(
    shard: GroupShard,
    _offset: int,
    key: records.ShareGroupMetadataKey,
    value: records.ShareGroupMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if value is None:
        if group is not None:
            del shard.groups[key.group_id]
            shard.shares.forget_paces([key.group_id])
        return
    assert group is not None
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _replay_target_epoch(
    shard: GroupShard,
    _offset: int,
    key: records.ShareGroupTargetAssignmentMetadataKey,
    value: records.ShareGroupTargetAssignmentMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is not None:
        group.target_epoch = _NO_EPOCH if value is None else value.assignment_epoch
        group.target_at = 0 if value is None else value.assignment_timestamp


def _replay_target(
    shard: GroupShard,
    _offset: int,
    key: records.ShareGroupTargetAssignmentMemberKey,
    value: records.ShareGroupTargetAssignmentMemberValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    group.must_look = True
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = {
            it.topic_id: frozenset(it.partitions) for it in value.topic_partitions
        }


def _replay_current(
    shard: GroupShard,
    _offset: int,
    key: records.ShareGroupCurrentMemberAssignmentKey,
    value: records.ShareGroupCurrentMemberAssignmentValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    old = group.members.get(key.member_id)
    if value is None:
        if old is not None:
            group.put(old._replace(epoch=LEFT, previous_epoch=LEFT, assigned=NOTHING))
        return
    group.put(
        (old or Member(key.member_id))._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned={it.topic_id: frozenset(it.partitions) for it in value.assigned_partitions},
        )
    )


def _replay_readiness(
    shard: GroupShard,
    _offset: int,
    key: records.ShareGroupStatePartitionMetadataKey,
    value: records.ShareGroupStatePartitionMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    group.must_look = True
    if value is None:
        group.ready = None
        group.asked_at.clear()
        return
    group.ready = Readiness(
        _topics(value.initializing_topics),
        _topics(value.initialized_topics),
        {it.topic_id: it.topic_name for it in value.deleting_topics},
    )
    for topic_id in group.asked_at.keys() - group.ready.initializing.keys():
        del group.asked_at[topic_id]


def _topics(infos: Iterable[records.TopicPartitionsInfo]) -> Topics:
    return {it.topic_id: Topic(it.topic_name, frozenset(it.partitions)) for it in infos}


REPLAY: dict[int, Replay] = {
    10: _replay_member,
    11: _replay_epoch,
    12: _replay_target_epoch,
    13: _replay_target,
    14: _replay_current,
    15: _replay_readiness,
}
