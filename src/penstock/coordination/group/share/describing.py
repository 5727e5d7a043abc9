"""ShareGroupDescribe: what a group looks like from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.share.assigning import SIMPLE
from penstock.coordination.group.share.group import ShareGroup
from penstock.coordination.group.share.leaving import not_a_share_group
from penstock.protocol.generated.share_group_describe import (
    Assignment,
    DescribedGroup,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from penstock.protocol.generated.share_group_describe import Member as DescribedMember

if TYPE_CHECKING:
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.share.member import Member


def describe(shard: GroupShard, group_id: str) -> ShareGroupDescribeResponse:
    """An answer with the group, or with why there is no such share group."""
    return ShareGroupDescribeResponse(groups=[_describe_group(shard, group_id)])


def _describe_group(shard: GroupShard, group_id: str) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        why = not_a_share_group(group, group_id)
        return DescribedGroup(group_id=group_id, error_code=why.error, error_message=why.message)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=SIMPLE,
        members=[_describe_member(shard, it) for it in group.members.values()],
    )


def _describe_member(shard: GroupShard, member: Member) -> DescribedMember:
    by_id = shard.consumers.image.topics.by_id
    return DescribedMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(
                    topic_id=topic_id, topic_name=by_id[topic_id].name, partitions=sorted(numbers)
                )
                for topic_id, numbers in member.assigned.items()
                if topic_id in by_id  # those that still exist
            ]
        ),
    )
