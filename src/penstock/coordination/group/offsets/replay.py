"""What a record about an offset changes in the shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.creating import simple_group
from penstock.coordination.group.offsets.committed import pack
from penstock.protocol.generated.group_records import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from penstock.coordination.group.offsets.committed import Packed
    from penstock.coordination.group.shard import GroupShard, Replay

NO_PRODUCER = -1


def replay_offset(
    shard: GroupShard,
    offset: int,
    key: OffsetCommitKey,
    value: OffsetCommitValue | None,
    producer_id: int,
) -> None:
    """An offset was committed, or a tombstone says that it is forgotten."""
    group, topic, partition = key.group, key.topic, key.partition
    if value is None:
        shard.offsets.remove(group, topic, partition)
        return
    packed = pack(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )
    keep(shard, offset, group, topic, partition, packed, producer_id)


def keep(
    shard: GroupShard,
    offset: int,
    group: str,
    topic: str,
    partition: int,
    packed: Packed,
    producer_id: int,
) -> None:
    """An offset counts from now on, or when its producer's transaction commits."""
    if group not in shard.groups:
        simple_group(shard, group)
    if producer_id == NO_PRODUCER:
        shard.offsets.put(group, topic, partition, packed)
    else:
        shard.offsets.put_pending(producer_id, (group, topic, partition), offset, packed)


REPLAY: dict[int, Replay] = {OffsetCommitKey.API_KEY: replay_offset}
