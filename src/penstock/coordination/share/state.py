"""What the share coordinator knows of one share group on one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.delivery.effects import State, StateBatch
from penstock.coordination.share.batches import merge
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis, uuid_text
from penstock.protocol.generated.share_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareSnapshotValueStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
    ShareUpdateValueStateBatch,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NO_START = -1
"""The group has never read the partition."""
NO_COUNT = -1
NO_EPOCH = -1
"""Of who asks without fencing anybody."""


class ShareKey(NamedTuple):
    """One share group on one partition."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def name(self) -> str:
        """What finds the coordinator, as Kafka writes it."""
        return f"{self.group_id}:{uuid_text(self.topic_id)}:{self.partition}"


class Summary(NamedTuple):
    """How far a group has come on a partition."""

    state_epoch: int
    leader_epoch: int
    start: int
    complete: int
    """How many offsets at or above `start` are done with; -1 if nobody said."""


NOTHING_KNOWN = Summary(0, 0, NO_START, NO_COUNT)


class Told(NamedTuple):
    """What came of a request about one key."""

    error: ErrorCode
    message: str | None = None


DONE = Told(ErrorCode.NONE)


class ShareState:
    """The state of one key. Only records change it."""

    __slots__ = (
        "batches",
        "complete",
        "created",
        "leader_epoch",
        "offset",
        "snapshot_epoch",
        "start",
        "state_epoch",
        "updates",
        "written",
    )

    def __init__(self, value: ShareSnapshotValue, offset: int) -> None:
        self.snapshot_epoch = value.snapshot_epoch
        self.state_epoch = value.state_epoch
        self.leader_epoch = value.leader_epoch
        self.start = value.start_offset
        self.complete = value.delivery_complete_count
        self.created = value.create_timestamp
        self.written = value.write_timestamp
        self.batches = batches_of(value.state_batches)
        self.offset = offset
        """Where the snapshot stands: the log is needed from there on."""
        self.updates = 0
        """Since the snapshot."""

    def update(self, value: ShareUpdateValue) -> None:
        """Change it as an update says."""
        if value.start_offset != NO_START:
            self.start = value.start_offset
        self.leader_epoch = max(self.leader_epoch, value.leader_epoch)
        self.complete = value.delivery_complete_count
        self.updates += 1
        merge(self.batches, batches_of(value.state_batches), self.start)

    def snapshot(self) -> ShareSnapshotValue:
        """The whole state, as the next snapshot."""
        return ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start,
            delivery_complete_count=self.complete,
            create_timestamp=self.created,
            write_timestamp=self.written,
            state_batches=snapshot_batches(self.batches),
        )


def snapshot_key(key: ShareKey) -> ShareSnapshotKey:
    """The key of a snapshot; without a value it says that the state is gone."""
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def update_key(key: ShareKey) -> ShareUpdateKey:
    return ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def batches_of(
    parts: Iterable[ShareSnapshotValueStateBatch | ShareUpdateValueStateBatch],
) -> list[StateBatch]:
    """The batches of a record."""
    return [
        StateBatch(
            it.first_offset,
            it.last_offset,
            State(it.delivery_state),
            it.delivery_count,
            Millis(it.not_before),
        )
        for it in parts
    ]


def snapshot_batches(batches: Sequence[StateBatch]) -> list[ShareSnapshotValueStateBatch]:
    return [
        ShareSnapshotValueStateBatch(
            first_offset=it.first,
            last_offset=it.last,
            delivery_state=it.state,
            delivery_count=it.count,
            not_before=it.not_before,
        )
        for it in batches
    ]


def update_batches(batches: Sequence[StateBatch]) -> list[ShareUpdateValueStateBatch]:
    return [
        ShareUpdateValueStateBatch(
            first_offset=it.first,
            last_offset=it.last,
            delivery_state=it.state,
            delivery_count=it.count,
            not_before=it.not_before,
        )
        for it in batches
    ]
