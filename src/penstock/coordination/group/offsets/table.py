"""All committed offsets of a shard, and those that wait for the end of a transaction.

Only replaying records changes the table. An offset that was committed within a transaction counts
when the transaction commits; unless a younger commit of the same partition, plain or of another
transaction, has counted meanwhile: the later record in the log wins, not the later marker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.offsets.committed import topic_id_of
from penstock.model.ids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.coordination.group.offsets.committed import Packed

Topics = dict[str, dict[int, "Packed"]]
"""A group's offsets, by topic and partition."""

Key = tuple[str, str, int]
"""Group, topic and partition."""


class Pending(NamedTuple):
    """An offset that counts if its transaction commits."""

    record_offset: int
    """Where the record stands in the shard's log: tells which of two commits is younger."""
    packed: Packed | None
    """None if a younger commit already counts."""


class OffsetTable:
    """Offsets by group, topic and partition."""

    __slots__ = ("_names", "_open", "_pending", "by_group", "deleted_topics", "sweep")

    def __init__(self) -> None:
        self.by_group: dict[str, Topics] = {}
        self._pending: dict[int, dict[Key, Pending]] = {}
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        self._names: dict[str, str] = {}
        self.deleted_topics: dict[bytes, str] = {}
        """Topics by id whose offsets are still to be removed. No log keeps it."""
        self.sweep: list[str] = []
        """Groups that the running search for expired offsets has yet to visit."""

    # -- looking --------------------------------------------------------------------------------

    def topics(self, group: str) -> Topics:
        """What a group has committed."""
        return self.by_group.get(group, _NOTHING)

    def find(self, group: str, topic: str, partition: int) -> Packed | None:
        """The offset that counts now."""
        return self.by_group.get(group, _NOTHING).get(topic, _NONE).get(partition)

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may yet change the offset."""
        opened = self._open.get(group)
        return opened is not None and (topic, partition) in opened

    @property
    def any_open(self) -> bool:
        """Whether some transaction has committed offsets that do not count yet."""
        return bool(self._open)

    def has_open_transactions(self, group: str) -> bool:
        """Whether some transaction may yet commit offsets of the group."""
        return group in self._open

    def pending_keys(self, group: str) -> Iterator[tuple[str, int]]:
        """Topic and partition of each offset that may yet come to count."""
        yield from self._open.get(group, ())

    def of_topic(self, topic: str, topic_id: bytes) -> Iterator[tuple[str, int]]:
        """Group and partition of each offset, pending ones too, of a topic with this id.

        Offsets whose client did not know the id count as the topic's.
        """
        for group, topics in self.by_group.items():
            for partition, packed in topics.get(topic, _NONE).items():
                if topic_id_of(packed) in (ZERO_UUID, topic_id):
                    yield group, partition
        for group, opened in self._open.items():
            for name, partition in opened:
                if name == topic and self.find(group, topic, partition) is None:
                    yield group, partition

    def __len__(self) -> int:
        return sum(len(each) for topics in self.by_group.values() for each in topics.values())

    # -- replaying ------------------------------------------------------------------------------

    def put(self, group: str, topic: str, partition: int, packed: Packed) -> None:
        """A commit outside of transactions counts at once."""
        if self._open and self.is_pending(group, topic, partition):
            self._outdate(group, topic, partition, None)
        self.partitions(group, topic)[partition] = packed

    def partitions(self, group: str, topic: str) -> dict[int, Packed]:
        """Where the offsets of a group and a topic are kept: to be filled at once."""
        topics = self.by_group.get(group)
        if topics is None:
            topics = self.by_group[group] = {}
        found = topics.get(topic)
        if found is None:
            # Every group that reads a topic would bring a copy of its name.
            found = topics[self._names.setdefault(topic, topic)] = {}
        return found

    def put_pending(self, producer_id: int, key: Key, record_offset: int, packed: Packed) -> None:
        """A commit within a transaction waits for the transaction's end."""
        self._pending.setdefault(producer_id, {})[key] = Pending(record_offset, packed)
        group, topic, partition = key
        opened = self._open.setdefault(group, {})
        opened.setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group: str, topic: str, partition: int) -> None:
        """Forget an offset, and whatever transactions would make of it."""
        topics = self.by_group.get(group)
        partitions = None if topics is None else topics.get(topic)
        if topics is not None and partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del topics[topic]
                if not topics:
                    del self.by_group[group]
        for producer_id in self._open.get(group, {}).get((topic, partition), set()).copy():
            key = (group, topic, partition)
            self._pending[producer_id].pop(key)
            self._close(producer_id, key)

    def end_txn(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:  # noqa: ARG002
        """A transaction ended: what it committed counts now, or never did.

        Markers end the producer's transaction whatever their epoch: a raised one fences it.
        """
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return
        for key, (record_offset, packed) in pending.items():
            self._close(producer_id, key)
            if is_commit and packed is not None:
                self._outdate(*key, record_offset)
                group, topic, partition = key
                self.partitions(group, topic)[partition] = packed

    def _close(self, producer_id: int, key: Key) -> None:
        group, topic, partition = key
        opened = self._open[group]
        producers = opened[topic, partition]
        producers.discard(producer_id)
        if not producers:
            del opened[topic, partition]
            if not opened:
                del self._open[group]

    def _outdate(self, group: str, topic: str, partition: int, below: int | None) -> None:
        """Pending commits of the partition, of records before `below`, will never count."""
        key = (group, topic, partition)
        for producer_id in self._open.get(group, {}).get((topic, partition), ()):
            pending = self._pending[producer_id]
            record_offset = pending[key].record_offset
            if below is None or record_offset < below:
                pending[key] = Pending(record_offset, None)


_NOTHING: Topics = {}
_NONE: dict[int, Packed] = {}
