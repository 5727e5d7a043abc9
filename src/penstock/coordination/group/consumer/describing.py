"""ConsumerGroupDescribe: what a group looks like from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.assignors import assignor_names
from penstock.coordination.group.consumer.group import NO_TARGET, ConsumerGroup
from penstock.coordination.group.consumer.leaving import group_not_found
from penstock.protocol.generated.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    TopicPartitions,
)
from penstock.protocol.generated.consumer_group_describe import Member as DescribedMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.coordination.group.consumer.member import Member
    from penstock.coordination.group.shard import GroupShard

CLASSIC, CONSUMER = 0, 1
"""Which protocol a member speaks."""


def describe(shard: GroupShard, group_id: str) -> ConsumerGroupDescribeResponse:
    """An answer with the group, or with why there is no such consumer group."""
    return ConsumerGroupDescribeResponse(groups=[_describe_group(shard, group_id)])


def _describe_group(shard: GroupShard, group_id: str) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        why = group_not_found(group, group_id)
        return DescribedGroup(group_id=group_id, error_code=why.error, error_message=why.message)
    default = assignor_names(shard.settings.consumer_assignors)[0]
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(default),
        members=[_describe_member(shard, group, it) for it in group.members.values()],
    )


def _describe_member(shard: GroupShard, group: ConsumerGroup, member: Member) -> DescribedMember:
    held: dict[bytes, list[int]] = {}
    for part in (member.assigned, member.revoking):
        for topic_id, numbers in part.items():
            held.setdefault(topic_id, []).extend(numbers)
    target = group.target.get(member.member_id, NO_TARGET)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(shard, held),
        target_assignment=_assignment(shard, target),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(shard: GroupShard, partitions: Mapping[bytes, Iterable[int]]) -> Assignment:
    """Of the topics that still exist."""
    by_id = shard.consumers.image.topics.by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=by_id[topic_id].name, partitions=sorted(numbers)
            )
            for topic_id, numbers in partitions.items()
            if topic_id in by_id
        ]
    )
