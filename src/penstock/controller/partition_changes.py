"""Changes of partitions that one request makes, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.elections import change_record
from penstock.metadata.topics import merge

if TYPE_CHECKING:
    from penstock.controller.decision import Context
    from penstock.metadata.topics import PartitionImage, TopicImage
    from penstock.protocol.generated.metadata_records import PartitionChangeRecord


class PartitionChanges:
    """Records, and the states that they lead to: a partition named twice has moved on by then."""

    __slots__ = ("_changed", "_topics", "records")

    def __init__(self, context: Context) -> None:
        self._topics = context.image.topics
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}
        self.records: list[PartitionChangeRecord] = []

    def topic(self, name: str) -> TopicImage | None:
        return self._topics.by_name.get(name)

    def topic_of(self, topic_id: bytes) -> TopicImage | None:
        return self._topics.by_id.get(topic_id)

    def partition(self, topic: TopicImage, index: int) -> PartitionImage | None:
        """The latest state; None if there is no such partition."""
        return self._changed.get((topic.id, index)) or topic.partitions.get(index)

    def change(
        self, topic: TopicImage, index: int, old: PartitionImage, new: PartitionImage
    ) -> PartitionImage:
        """Take a new state, whose epochs are not raised yet; answers it with those it has."""
        record = change_record(topic.id, index, old, new)
        if record is None:
            return old
        self.records.append(record)
        state = self._changed[topic.id, index] = merge(old, record)
        return state
