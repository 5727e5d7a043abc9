"""What a group has committed, for those who ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.offsets.committed import unpack
from penstock.model.errors import ErrorCode
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.offsets.committed import Packed
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.generated.offset_fetch import (
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopics,
    )

NO_OFFSET = -1
NO_EPOCH = -1


def fetch_offsets(
    shard: GroupShard,
    at: Moment,  # noqa: ARG001
    out: Effects,
    ticket: Ticket,
    asked: OffsetFetchRequestGroup,
    require_stable: bool,
) -> None:
    """Answer for the partitions asked about, or for all that the group has.

    `require_stable` is for readers of transactions: where one is open they are told to ask again,
    instead of getting an offset that may be outdated in a moment.
    """
    response = OffsetFetchResponseGroup(group_id=asked.group_id)
    out.reply(ticket, response)
    group = shard.groups.get(asked.group_id)
    if group is not None:
        error = group.check_fetch(asked.member_id, asked.member_epoch)
        if error:
            response.error_code = error
            return
    if asked.topics is None:
        response.topics = _all_topics(shard, asked.group_id, require_stable)
    else:
        response.topics = [
            _topic(shard, asked.group_id, topic, require_stable) for topic in asked.topics
        ]


def _all_topics(
    shard: GroupShard, group_id: str, require_stable: bool
) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic,
            partitions=[
                _partition(shard, group_id, topic, partition, packed, require_stable)
                for partition, packed in partitions.items()
            ],
        )
        for topic, partitions in shard.offsets.topics(group_id).items()
    ]


def _topic(
    shard: GroupShard, group_id: str, topic: OffsetFetchRequestTopics, require_stable: bool
) -> OffsetFetchResponseTopics:
    known = shard.offsets.topics(group_id).get(topic.name, {})
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            _partition(
                shard,
                group_id,
                topic.name,
                partition,
                known.get(partition),
                require_stable,
                topic.topic_id,
            )
            for partition in topic.partition_indexes
        ],
    )


def _partition(
    shard: GroupShard,
    group_id: str,
    topic: str,
    partition: int,
    packed: Packed | None,
    require_stable: bool,
    topic_id: bytes = ZERO_UUID,
) -> OffsetFetchResponsePartitions:
    if require_stable and shard.offsets.is_pending(group_id, topic, partition):
        return nothing(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if packed is None:
        return nothing(partition)
    committed = unpack(packed)
    if topic_id != ZERO_UUID and committed.topic_id not in (ZERO_UUID, topic_id):
        return nothing(partition)  # of a topic that had this name before
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def nothing(partition: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    """No offset, for want of one or because of an error."""
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_EPOCH,
        metadata="",
        error_code=error,
    )
