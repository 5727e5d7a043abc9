"""Replaying the commonest record of all straight from its bytes, while a shard is loaded.

A shard's log may begin with a million offsets of a few thousand groups. Nearly all of their
records have the same size and come group by group; making two objects of each would take most of
the loading's time.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from penstock.coordination.group.classic.creating import simple_group
from penstock.coordination.group.offsets.committed import NO_EXPIRY, pack
from penstock.coordination.group.offsets.record import VALUE
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated.group_records import OffsetCommitKey

if TYPE_CHECKING:
    from penstock.coordination.group.offsets.committed import Packed
    from penstock.coordination.group.shard import GroupShard

PLACES_MAX = 10_000
"""Topics of groups that are remembered between records."""

_V3 = Struct(">hqihq")
"""`VALUE` before topics had ids."""
_v3, _v3_size = _V3.unpack_from, _V3.size
_v4, _v4_size = VALUE.unpack_from, VALUE.size

_partition = Struct(">i").unpack_from
_PARTITION_SIZE = 4
_length = Struct(">h").unpack_from


class QuickReplay:
    """Knows the records that it can replay; all others go the ordinary way, and make it forget."""

    __slots__ = ("_places", "_shard")

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._places: dict[bytes, dict[int, Packed]] = {}

    def replay(self, key: memoryview, value: memoryview | None) -> bool:
        """Whether the record is a plain commit of the common form, and replayed now."""
        if value is None:
            return False
        size = len(value)
        if size == _v4_size:
            version, offset, epoch, metadata, timestamp, tags, tag, id_size, topic_id = _v4(value)
            if version != 4 or metadata != 1 or tags != 1 or tag != 0 or id_size != 16:
                return False
        elif size == _v3_size:
            version, offset, epoch, metadata, timestamp = _v3(value)
            if version != 3 or metadata != 0:
                return False
            topic_id = ZERO_UUID
        else:
            return False
        place = bytes(key[:-_PARTITION_SIZE])
        partitions = self._places.get(place)
        if partitions is None:
            partitions = self._find(place)
            if partitions is None:
                return False
        (partition,) = _partition(key, len(place))
        partitions[partition] = pack(offset, epoch, "", timestamp, NO_EXPIRY, topic_id)
        return True

    def forget(self) -> None:
        """Another record may have removed what is remembered here."""
        self._places.clear()

    def _find(self, place: bytes) -> dict[int, Packed] | None:
        """Where the offsets of a group and a topic are kept, if nothing speaks against it."""
        names = _names(place)
        if names is None or self._shard.offsets.any_open:
            return None  # a commit may outdate what an open transaction has committed
        group, topic = names
        if group not in self._shard.groups:
            simple_group(self._shard, group)
        if len(self._places) >= PLACES_MAX:
            self._places.clear()
        found = self._places[place] = self._shard.offsets.partitions(group, topic)
        return found


def _names(place: bytes) -> tuple[str, str] | None:
    """Group and topic of an offset's key without the partition; None if it is something else."""
    if len(place) < 6 or _length(place)[0] != OffsetCommitKey.API_KEY:
        return None
    topic_at = 4 + _length(place, 2)[0] + 2
    if not 6 <= topic_at <= len(place):
        return None
    if topic_at + _length(place, topic_at - 2)[0] != len(place):
        return None
    try:
        return place[4 : topic_at - 2].decode(), place[topic_at:].decode()
    except UnicodeDecodeError:
        return None
