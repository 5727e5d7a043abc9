"""Records that say that an offset is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.generated.group_records import OffsetCommitKey

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects
    from penstock.coordination.group.shard import GroupShard

RECORDS_PER_STEP = 1_000
"""Tombstones that housekeeping writes before requests get their turn."""


def tombstone(out: Effects, group_id: str, topic: str, partition: int) -> None:
    """Forget one offset, and what open transactions would make of it."""
    out.record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def forget_all(shard: GroupShard, group_id: str, out: Effects) -> None:
    """Forget all that a group has committed, and what it has yet to commit."""
    table = shard.offsets
    for topic, partitions in table.topics(group_id).items():
        for partition in partitions:
            tombstone(out, group_id, topic, partition)
    for topic, partition in table.pending_keys(group_id):
        if table.find(group_id, topic, partition) is None:
            tombstone(out, group_id, topic, partition)


def forget_deleted_topics(shard: GroupShard, out: Effects) -> bool:
    """Forget the offsets of topics that were deleted; whether a step was enough for all.

    A topic that comes back under the same name starts afresh: its offsets have its own id.
    """
    table = shard.offsets
    out.atomic = False
    for topic_id, topic in list(table.deleted_topics.items()):
        for group_id, partition in table.of_topic(topic, topic_id):
            if len(out.records) >= RECORDS_PER_STEP:
                return False
            tombstone(out, group_id, topic, partition)
        del table.deleted_topics[topic_id]
    return True
