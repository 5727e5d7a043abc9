"""Leaders ask what became of records, and whoever describes a group asks how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.delivery.effects import Held
from penstock.coordination.share.state import NOTHING_KNOWN, Summary, Told, update_key
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.share_records import ShareUpdateValue

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.share.shard import ShareShard
    from penstock.coordination.share.state import ShareKey


def read(
    shard: ShareShard,
    at: Moment,  # noqa: ARG001
    out: Effects,
    key: ShareKey,
    leader_epoch: int,
) -> Held | Told:
    """All that is known. A leader that is new is written down: it fences those before it."""
    if key.partition < 0:
        return Told(ErrorCode.INVALID_REQUEST, "a partition's number is not negative")
    held = shard.states.get(key)
    if held is None:
        return Told(ErrorCode.INVALID_REQUEST, "this share partition was never begun")
    if leader_epoch < held.leader_epoch:
        return Told(ErrorCode.FENCED_LEADER_EPOCH)
    if not shard.knows(key):
        return Told(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if leader_epoch > held.leader_epoch:
        value = ShareUpdateValue(
            snapshot_epoch=held.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=held.start,
            delivery_complete_count=held.complete,
        )
        out.record(update_key(key), value)
    return Held(held.state_epoch, held.start, tuple(held.batches))


def summarize(
    shard: ShareShard,
    at: Moment,  # noqa: ARG001
    out: Effects,  # noqa: ARG001
    key: ShareKey,
) -> Summary | Told:
    """How far a group has come; a state that was never begun is no error here."""
    if key.partition < 0:
        return Told(ErrorCode.INVALID_REQUEST, "a partition's number is not negative")
    if not shard.knows(key):
        return Told(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    held = shard.states.get(key)
    if held is None:
        return NOTHING_KNOWN
    return Summary(held.state_epoch, held.leader_epoch, held.start, held.complete)
