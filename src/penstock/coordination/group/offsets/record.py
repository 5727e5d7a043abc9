"""The commonest record of all on its way into the log: an offset, and nothing to remember with it.

Consumers commit all the time, each a partition or two. Objects of the general kind for the key and
the value of each record, and the writers that go with them, would cost as much as all the rest.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.offsets.committed import NO_EXPIRY, pack
from penstock.coordination.group.offsets.replay import keep
from penstock.coordination.keys import NAME_REMEMBERED_MAX
from penstock.protocol.generated.group_records import OffsetCommitKey, OffsetCommitValue
from penstock.protocol.record_frames import GROUP

if TYPE_CHECKING:
    from penstock.coordination.group.shard import GroupShard
    from penstock.protocol.record_frames import CoordinatorFrames

VALUE = Struct(">hqiBqBBB16s")
"""A value without metadata in version 4: version, offset, leader epoch, length of the metadata,
timestamp, count of tagged fields, tag and size of the topic's id, and the id."""
_write = VALUE.pack


class OffsetRecord(NamedTuple):
    """What `NewRecord` would be of the same key and value, for values without metadata or expiry
    and topics whose id is known.
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    timestamp: int
    topic_id: bytes

    @property
    def version(self) -> int:
        return 4

    @property
    def key(self) -> OffsetCommitKey:
        return OffsetCommitKey(group=self.group, topic=self.topic, partition=self.partition)

    @property
    def value(self) -> OffsetCommitValue:
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            commit_timestamp=self.timestamp,
            topic_id=self.topic_id,
        )

    def encode(self, frames: CoordinatorFrames) -> tuple[bytes, bytes]:  # noqa: ARG002
        """The bytes of key and value."""
        group, topic, partition, offset, leader_epoch, timestamp, topic_id = self
        known = len(group) + len(topic) <= NAME_REMEMBERED_MAX
        key = (_remembered_key if known else _key)(group, topic, partition)
        return key, _write(4, offset, leader_epoch, 1, timestamp, 1, 0, 16, topic_id)

    def replay(self, shard: GroupShard, offset: int, producer_id: int) -> None:
        """Change the shard as the record says."""
        group, topic, partition, committed, leader_epoch, timestamp, topic_id = self
        packed = pack(committed, leader_epoch, "", timestamp, NO_EXPIRY, topic_id)
        keep(shard, offset, group, topic, partition, packed, producer_id)


def _key(group: str, topic: str, partition: int) -> bytes:
    return GROUP.write_key(OffsetCommitKey(group=group, topic=topic, partition=partition))


_remembered_key = lru_cache(maxsize=8192)(_key)
"""A consumer commits the same partitions again and again."""
