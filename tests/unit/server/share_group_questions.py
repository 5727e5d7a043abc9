"""Questions about share groups, as their members and their administrators ask them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.protocol.generated import alter_share_group_offsets as altering
from penstock.protocol.generated import delete_share_group_offsets as deleting
from penstock.protocol.generated import describe_share_group_offsets as describing
from penstock.protocol.generated.share_group_describe import ShareGroupDescribeRequest
from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest


def beating(
    group_id: str, topics: Iterable[str] | None = None, epoch: int = 0, member_id: str = "member"
) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=None if topics is None else list(topics),
    )


def describing_groups(*group_ids: str) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=list(group_ids), include_authorized_operations=True)


def describing_offsets(
    group_id: str, topics: Mapping[str, list[int]] | None = None
) -> describing.DescribeShareGroupOffsetsRequest:
    group = describing.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    if topics is not None:
        group.topics = [
            describing.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=some)
            for name, some in topics.items()
        ]
    return describing.DescribeShareGroupOffsetsRequest(groups=[group])


def altering_offsets(
    group_id: str, topics: Mapping[str, Mapping[int, int]]
) -> altering.AlterShareGroupOffsetsRequest:
    return altering.AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            altering.AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    altering.AlterShareGroupOffsetsRequestPartition(
                        partition_index=number, start_offset=offset
                    )
                    for number, offset in starts.items()
                ],
            )
            for name, starts in topics.items()
        ],
    )


def deleting_offsets(group_id: str, *topics: str) -> deleting.DeleteShareGroupOffsetsRequest:
    return deleting.DeleteShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=it) for it in topics],
    )
