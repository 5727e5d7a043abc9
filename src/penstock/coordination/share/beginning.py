"""A key's state begins, and ends: the group coordinator says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.share.shard import KEYS_MAX
from penstock.coordination.share.state import DONE, NO_COUNT, NO_EPOCH, NO_START, Told, snapshot_key
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.share_records import ShareSnapshotValue

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.share.shard import ShareShard
    from penstock.coordination.share.state import ShareKey


def initialize(
    shard: ShareShard,
    at: Moment,
    out: Effects,
    key: ShareKey,
    state_epoch: int,
    start: int,
) -> Told:
    """Begin, or begin anew, at an offset or (-1) where the group's configuration will say."""
    held = shard.states.get(key)
    told = _refused(shard, key)
    if told is None and held is not None and NO_EPOCH != state_epoch < held.state_epoch:
        told = Told(ErrorCode.FENCED_STATE_EPOCH)
    if told is None and start < NO_START:
        told = Told(ErrorCode.INVALID_REQUEST, f"{start} is no offset to start at")
    if told is None and held is None and len(shard.states) >= KEYS_MAX:
        told = Told(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"this coordinator keeps the states of {KEYS_MAX} share partitions and takes no more",
        )
    if told is None:
        value = ShareSnapshotValue(
            snapshot_epoch=0 if held is None else held.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0 if held is None else held.leader_epoch,
            start_offset=start,
            delivery_complete_count=NO_COUNT if start == NO_START else 0,
            create_timestamp=at.wall,
            write_timestamp=at.wall,
        )
        out.record(snapshot_key(key), value)
        told = DONE
    return told


def delete(
    shard: ShareShard,
    at: Moment,  # noqa: ARG001
    out: Effects,
    key: ShareKey,
) -> Told:
    """Forget a key. That there is no such state is no error: somebody was faster."""
    told = _refused(shard, key)
    if told is None:
        if key in shard.states:
            out.record(snapshot_key(key), None)
        told = DONE
    return told


def _refused(shard: ShareShard, key: ShareKey) -> Told | None:
    if key.partition < 0:
        return Told(ErrorCode.INVALID_REQUEST, "a partition's number is not negative")
    return None if shard.knows(key) else Told(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
