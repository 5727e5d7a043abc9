"""Leaders write down what became of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.delivery.effects import State, StateBatch
from penstock.coordination.share.batches import merge, merged
from penstock.coordination.share.state import (
    DONE,
    NO_EPOCH,
    NO_START,
    ShareState,
    Told,
    snapshot_batches,
    snapshot_key,
    update_batches,
    update_key,
)
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.share_records import ShareUpdateValue

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.share.shard import ShareShard
    from penstock.coordination.share.state import ShareKey

BATCHES_MAX = 20_000
"""Batches of one key, twice as many as records may be in flight: they fit into one record."""

KEPT = frozenset((State.AVAILABLE, State.ACKNOWLEDGED, State.ARCHIVING, State.ARCHIVED))
"""What may be written down; who holds a record only its leader knows."""


class Writing(NamedTuple):
    """What a leader has to say."""

    state_epoch: int
    leader_epoch: int
    start: int
    """-1 leaves it as it is, and so does one below what is known: the write comes late."""
    complete: int
    batches: Sequence[StateBatch]


def write(shard: ShareShard, at: Moment, out: Effects, key: ShareKey, said: Writing) -> Told:
    """As an update, or as a whole snapshot after many of them."""
    told = _refused(shard, key, said)
    if told is not None:
        return told
    shard.stay_short(at, out)
    held = shard.states[key]
    if held.updates >= shard.settings.updates_per_snapshot:
        return _snapshot(held, at, out, key, said)
    return _update(held, out, key, said)


def _refused(shard: ShareShard, key: ShareKey, said: Writing) -> Told | None:
    if key.partition < 0:
        return Told(ErrorCode.INVALID_REQUEST, "a partition's number is not negative")
    held = shard.states.get(key)
    if held is None:
        return Told(ErrorCode.INVALID_REQUEST, "this share partition was never begun")
    if NO_EPOCH != said.leader_epoch < held.leader_epoch:
        return Told(ErrorCode.FENCED_LEADER_EPOCH)
    if NO_EPOCH != said.state_epoch < held.state_epoch:
        return Told(ErrorCode.FENCED_STATE_EPOCH)
    if not shard.knows(key):
        return Told(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if said.start < NO_START:
        return Told(ErrorCode.INVALID_REQUEST, f"{said.start} is no offset to start at")
    wrong = next((it for it in said.batches if not _makes_sense(it)), None)
    if wrong is not None:
        return Told(ErrorCode.INVALID_REQUEST, f"{wrong} makes no sense")
    if len(held.batches) + 2 * len(said.batches) > BATCHES_MAX:
        return _too_many(held, said)
    return None


def _makes_sense(batch: StateBatch) -> bool:
    return (
        0 <= batch.first <= batch.last
        and batch.state in KEPT
        and batch.count >= 0
        and batch.not_before >= 0
    )


def _too_many(held: ShareState, said: Writing) -> Told | None:
    """A new batch may split one that is held, but mostly replaces some: look what comes of it."""
    if len(said.batches) <= BATCHES_MAX:
        together = list(held.batches)
        merge(together, said.batches, max(held.start, said.start))
        if len(together) <= BATCHES_MAX:
            return None
    return Told(ErrorCode.INVALID_REQUEST, f"more than {BATCHES_MAX} state batches")


def _update(held: ShareState, out: Effects, key: ShareKey, said: Writing) -> Told:
    start = max(held.start, said.start)
    value = ShareUpdateValue(
        snapshot_epoch=held.snapshot_epoch,
        leader_epoch=held.leader_epoch,
        start_offset=start,
        delivery_complete_count=_complete(held, said),
        state_batches=update_batches(merged(said.batches, start)),
    )
    out.record(update_key(key), value)
    return DONE


def _snapshot(held: ShareState, at: Moment, out: Effects, key: ShareKey, said: Writing) -> Told:
    value = held.snapshot()
    batches = list(held.batches)
    value.start_offset = max(held.start, said.start)
    merge(batches, said.batches, value.start_offset)
    value.delivery_complete_count = _complete(held, said)
    value.state_batches = snapshot_batches(batches)
    value.create_timestamp = value.write_timestamp = at.wall
    out.record(snapshot_key(key), value)
    return DONE


def _complete(held: ShareState, said: Writing) -> int:
    """It counts from the start that came with it."""
    return held.complete if NO_START < said.start < held.start else said.complete
