"""Topics and partitions: the image, and the delta that tells a broker what to open and close.

Look-ups are on the way of many requests and changes are rare, so maps are dicts, or nearly: see
`layers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.layers import changed
from penstock.model.ids import ZERO_UUID
from penstock.model.invariants import invariant
from penstock.protocol.generated.metadata_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1

DIRECTORY_MIGRATING = ZERO_UUID
"""The broker has never said where the replica lies: written before directories had ids."""
DIRECTORY_UNASSIGNED = bytes(15) + b"\x01"
"""The broker chooses one of its directories."""
DIRECTORY_LOST = bytes(15) + b"\x02"
"""The directory is offline, and which one it was is not known."""

_NOBODY: tuple[int, ...] = ()
_shared_nodes: dict[tuple[int, ...], tuple[int, ...]] = {}
_shared_directories: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
_SHARED_MAX = 10_000


def _nodes(ids: Iterable[int] | None) -> tuple[int, ...]:
    """An immutable list of nodes; equal lists are one object, as most partitions share a few."""
    if not ids:
        return _NOBODY
    key = tuple(ids)
    if len(_shared_nodes) >= _SHARED_MAX:
        _shared_nodes.clear()
    return _shared_nodes.setdefault(key, key)


def _directories(ids: Iterable[bytes]) -> tuple[bytes, ...]:
    key = tuple(ids)
    if len(_shared_directories) >= _SHARED_MAX:
        _shared_directories.clear()
    return _shared_directories.setdefault(key, key)


class PartitionImage(NamedTuple):
    """One partition's state as the controller last decided it."""

    replicas: tuple[int, ...]
    directories: tuple[bytes, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = _NOBODY
    last_known_elr: tuple[int, ...] = _NOBODY
    adding: tuple[int, ...] = _NOBODY
    removing: tuple[int, ...] = _NOBODY
    recovering: bool = False

    def directory_of(self, node_id: int) -> bytes | None:
        """Where a replica lies, or None if the node holds none."""
        try:
            return self.directories[self.replicas.index(node_id)]
        except ValueError:
            return None

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def record(self, topic_id: bytes, index: int) -> PartitionRecord:
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing),
            adding_replicas=list(self.adding),
            leader=self.leader,
            leader_recovery_state=int(self.recovering),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )


def partition_of(record: PartitionRecord) -> PartitionImage:
    """The state that a PartitionRecord sets out."""
    replicas = _nodes(record.replicas)
    directories = record.directories or [DIRECTORY_MIGRATING] * len(replicas)
    return PartitionImage(
        replicas,
        _directories(directories),
        _nodes(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        _nodes(record.eligible_leader_replicas),
        _nodes(record.last_known_elr),
        _nodes(record.adding_replicas),
        _nodes(record.removing_replicas),
        record.leader_recovery_state == 1,
    )


def merge(old: PartitionImage, change: PartitionChangeRecord) -> PartitionImage:
    """The state after a change: absent fields stay, and naming a leader raises its epoch."""
    leader, leader_epoch = old.leader, old.leader_epoch
    if change.leader != LEADER_UNCHANGED:
        leader, leader_epoch = change.leader, leader_epoch + 1
    recovering = old.recovering
    if change.leader_recovery_state != RECOVERY_UNCHANGED:
        recovering = change.leader_recovery_state == 1
    elr, last_known = change.eligible_leader_replicas, change.last_known_elr
    return PartitionImage(
        old.replicas if change.replicas is None else _nodes(change.replicas),
        _directories(change.directories) if change.directories else old.directories,
        old.isr if change.isr is None else _nodes(change.isr),
        leader,
        leader_epoch,
        old.partition_epoch + 1,
        old.elr if elr is None else _nodes(elr),
        old.last_known_elr if last_known is None else _nodes(last_known),
        old.adding if change.adding_replicas is None else _nodes(change.adding_replicas),
        old.removing if change.removing_replicas is None else _nodes(change.removing_replicas),
        recovering,
    )


class TopicImage(NamedTuple):
    """A topic and its partitions by index."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage]


class TopicsImage:
    """Every topic, by name and by id."""

    __slots__ = ("by_id", "by_name")

    def __init__(
        self,
        by_name: Mapping[str, TopicImage] | None = None,
        by_id: Mapping[bytes, TopicImage] | None = None,
    ) -> None:
        self.by_name: Mapping[str, TopicImage] = by_name if by_name is not None else {}
        self.by_id: Mapping[bytes, TopicImage] = by_id if by_id is not None else {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicsImage) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]

    def partition(self, name: str, index: int) -> PartitionImage | None:
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(index)

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.by_id.values())

    def records(self) -> Iterator[TopicRecord | PartitionRecord]:
        for topic in self.by_id.values():
            yield TopicRecord(name=topic.name, topic_id=topic.id)
            for index, partition in sorted(topic.partitions.items()):
                yield partition.record(topic.id, index)


class TopicChange:
    """What became of one topic: its old image (None if new) and its partitions' new states."""

    __slots__ = ("before", "id", "name", "partitions")

    def __init__(self, name: str, topic_id: bytes, before: TopicImage | None) -> None:
        self.name = name
        self.id = topic_id
        self.before = before
        self.partitions: dict[int, PartitionImage] = {}

    def old(self, index: int) -> PartitionImage | None:
        """The partition before this delta, or None if it is new."""
        return None if self.before is None else self.before.partitions.get(index)

    def current(self, index: int) -> PartitionImage | None:
        found = self.partitions.get(index)
        return found if found is not None else self.old(index)

    def apply(self) -> TopicImage:
        if self.before is None:
            return TopicImage(self.name, self.id, self.partitions.copy())
        if not self.partitions:
            return self.before
        return TopicImage(self.name, self.id, changed(self.before.partitions, self.partitions))


class TopicsDelta:
    """Changes to topics, by topic id."""

    __slots__ = ("changed", "deleted", "image")

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.changed: dict[bytes, TopicChange] = {}
        """Topics created (their `before` is None) and topics with partitions that changed."""
        self.deleted: dict[bytes, TopicImage] = {}
        """Topics of the old image that are gone; one created and deleted here is in neither."""

    def topic(self, record: TopicRecord) -> None:
        self.changed[record.topic_id] = TopicChange(record.name, record.topic_id, None)

    def partition(self, record: PartitionRecord) -> None:
        change = self._change(record.topic_id)
        change.partitions[record.partition_id] = partition_of(record)

    def partition_change(self, record: PartitionChangeRecord) -> None:
        change = self._change(record.topic_id)
        old = change.current(record.partition_id)
        invariant(old is not None, f"change of unknown partition {record.partition_id}")
        assert old is not None
        change.partitions[record.partition_id] = merge(old, record)

    def remove(self, record: RemoveTopicRecord) -> str:
        """Forget a topic; returns its name, as its configuration goes with it."""
        change = self.changed.pop(record.topic_id, None)
        before = self.image.by_id.get(record.topic_id)
        invariant(change is not None or before is not None, "removal of an unknown topic")
        if before is not None:
            self.deleted[record.topic_id] = before
            return before.name
        assert change is not None
        return change.name

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Forget who may lead besides the ISR: of one topic, or of all if no name is given."""
        for topic_id in self._ids_named(record.topic_name):
            change = self._change(topic_id)
            before = change.before.partitions if change.before is not None else {}
            for index in {**before, **change.partitions}:
                state = change.current(index)
                if state is not None and (state.elr or state.last_known_elr):
                    change.partitions[index] = state._replace(
                        elr=_NOBODY,
                        last_known_elr=_NOBODY,
                        partition_epoch=state.partition_epoch + 1,
                    )
            if change.before is not None and not change.partitions:
                del self.changed[topic_id]

    def _ids_named(self, name: str) -> list[bytes]:
        if not name:
            alive = [i for i in self.image.by_id if i not in self.deleted]
            return list(dict.fromkeys([*alive, *self.changed]))
        topic = self.image.by_name.get(name)
        if topic is not None and topic.id not in self.deleted:
            return [topic.id]
        return [change.id for change in self.changed.values() if change.name == name]

    def _change(self, topic_id: bytes) -> TopicChange:
        change = self.changed.get(topic_id)
        if change is None:
            before = None if topic_id in self.deleted else self.image.by_id.get(topic_id)
            invariant(before is not None, "a partition's topic is unknown")
            assert before is not None
            change = self.changed[topic_id] = TopicChange(before.name, topic_id, before)
        return change

    def apply(self) -> TopicsImage:
        ids: dict[bytes, TopicImage | None] = dict.fromkeys(self.deleted)
        names: dict[str, TopicImage | None] = {t.name: None for t in self.deleted.values()}
        for topic_id, change in self.changed.items():
            ids[topic_id] = names[change.name] = change.apply()
        return TopicsImage(changed(self.image.by_name, names), changed(self.image.by_id, ids))
