"""The records that make up a consumer group, as Kafka 4.3 writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.generated.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupCurrentMemberAssignmentValueTopicPartitions,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMemberValueTopicPartition,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.effects import Effects
    from penstock.coordination.group.consumer.assignors.wish import Partitions
    from penstock.coordination.group.consumer.member import Held, Member
    from penstock.coordination.group.consumer.subscriptions import Resolved


def write_epoch(out: Effects, group_id: str, epoch: int, metadata_hash: int) -> None:
    """The group's epoch, and what its topics looked like then."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    out.record(ConsumerGroupMetadataKey(group_id=group_id), value)


def write_member(out: Effects, group_id: str, member: Member) -> None:
    """What a member said of itself."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    out.record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def write_target_epoch(out: Effects, group_id: str, epoch: int, timestamp: int) -> None:
    """The epoch that the target was computed for, and when."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp
    )
    out.record(key, value)


def write_target(out: Effects, group_id: str, member_id: str, partitions: Partitions) -> None:
    """A member's part of the target."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            ConsumerGroupTargetAssignmentMemberValueTopicPartition(
                topic_id=topic_id, partitions=sorted(numbers)
            )
            for topic_id, numbers in partitions.items()
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    out.record(key, value)


def write_current(out: Effects, group_id: str, member: Member) -> None:
    """What a member holds."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_held(member.assigned),
        partitions_pending_revocation=_held(member.revoking),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    out.record(key, value)


def write_regex(out: Effects, group_id: str, regex: str, found: Resolved) -> None:
    """The topics that a regular expression stands for."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(found.topics), version=found.version, timestamp=found.timestamp
    )
    out.record(_regex_key(group_id, regex), value)


def forget_regex(out: Effects, group_id: str, regex: str) -> None:
    """Nobody uses the regular expression any more."""
    out.record(_regex_key(group_id, regex), None)


def forget_member(out: Effects, group_id: str, member_id: str) -> None:
    """The member is gone."""
    ids = {"group_id": group_id, "member_id": member_id}
    out.record(ConsumerGroupCurrentMemberAssignmentKey(**ids), None)
    out.record(ConsumerGroupTargetAssignmentMemberKey(**ids), None)
    out.record(ConsumerGroupMemberMetadataKey(**ids), None)


def forget_partition_metadata(out: Effects, group_id: str) -> None:
    """A record of Kafka 4.0 in whose place the metadata's hash has come."""
    out.record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def forget_group(
    out: Effects, group_id: str, member_ids: Iterable[str], regexes: Iterable[str]
) -> None:
    """The group is gone with all that belongs to it."""
    ids = [{"group_id": group_id, "member_id": member_id} for member_id in member_ids]
    for each in ids:
        out.record(ConsumerGroupCurrentMemberAssignmentKey(**each), None)
    for each in ids:
        out.record(ConsumerGroupTargetAssignmentMemberKey(**each), None)
    out.record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for each in ids:
        out.record(ConsumerGroupMemberMetadataKey(**each), None)
    for regex in regexes:
        forget_regex(out, group_id, regex)
    forget_partition_metadata(out, group_id)
    out.record(ConsumerGroupMetadataKey(group_id=group_id), None)


def _regex_key(group_id: str, regex: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


def _held(held: Held) -> list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions]:
    return [
        ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[number] for number in sorted(epochs)],
        )
        for topic_id, epochs in held.items()
    ]
