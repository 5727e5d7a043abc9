"""The records that make up a share group, as Kafka 4.3 writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.generated.group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupCurrentMemberAssignmentValueTopicPartitions,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupStatePartitionMetadataValueTopicInfo,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMemberValueTopicPartition,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicPartitionsInfo,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.effects import Effects
    from penstock.coordination.group.consumer.assignors.wish import Partitions
    from penstock.coordination.group.share.member import Member
    from penstock.coordination.group.share.readiness import Readiness, Topics

_STABLE = 0
"""The one state that a member of a share group is ever in."""


def write_epoch(out: Effects, group_id: str, epoch: int, metadata_hash: int) -> None:
    """The group's epoch, and what its topics looked like then."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    out.record(ShareGroupMetadataKey(group_id=group_id), value)


def write_member(out: Effects, group_id: str, member: Member) -> None:
    """What a member said of itself."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    out.record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def write_target_epoch(out: Effects, group_id: str, epoch: int, timestamp: int) -> None:
    """The epoch that the target was computed for, and when."""
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp
    )
    out.record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def write_target(out: Effects, group_id: str, member_id: str, partitions: Partitions) -> None:
    """A member's part of the target."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            ShareGroupTargetAssignmentMemberValueTopicPartition(
                topic_id=topic_id, partitions=sorted(numbers)
            )
            for topic_id, numbers in partitions.items()
        ]
    )
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    out.record(key, value)


def write_current(out: Effects, group_id: str, member: Member) -> None:
    """What a member has."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=[
            ShareGroupCurrentMemberAssignmentValueTopicPartitions(
                topic_id=topic_id, partitions=sorted(numbers)
            )
            for topic_id, numbers in member.assigned.items()
        ],
    )
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    out.record(key, value)


def write_readiness(out: Effects, group_id: str, ready: Readiness) -> None:
    """Which partitions have state, are getting it, or are losing it."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(ready.initializing),
        initialized_topics=_infos(ready.initialized),
        deleting_topics=[
            ShareGroupStatePartitionMetadataValueTopicInfo(topic_id=topic_id, topic_name=name)
            for topic_id, name in ready.deleting.items()
        ],
    )
    out.record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _infos(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in topics.items()
    ]


def forget_member(out: Effects, group_id: str, member_id: str) -> None:
    """The member is gone."""
    ids = {"group_id": group_id, "member_id": member_id}
    out.record(ShareGroupCurrentMemberAssignmentKey(**ids), None)
    out.record(ShareGroupTargetAssignmentMemberKey(**ids), None)
    out.record(ShareGroupMemberMetadataKey(**ids), None)


def forget_group(out: Effects, group_id: str, member_ids: Iterable[str]) -> None:
    """The group is gone with all that belongs to it."""
    ids = [{"group_id": group_id, "member_id": member_id} for member_id in member_ids]
    for each in ids:
        out.record(ShareGroupCurrentMemberAssignmentKey(**each), None)
    for each in ids:
        out.record(ShareGroupTargetAssignmentMemberKey(**each), None)
    out.record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for each in ids:
        out.record(ShareGroupMemberMetadataKey(**each), None)
    out.record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    out.record(ShareGroupMetadataKey(group_id=group_id), None)
