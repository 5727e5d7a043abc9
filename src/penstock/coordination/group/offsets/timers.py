"""What time and deleted topics do to committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.group.offsets.expiry import sweep
from penstock.coordination.group.offsets.tombstones import forget_deleted_topics
from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard, OnTimer
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.model.errors import ErrorCode

EXPIRE = ("offsets-expire",)
FORGET = ("offsets-forget",)

RETRY_MS = 1_000
"""After the log did not take tombstones: it lacks replicas, or the shard moves."""


def on_loaded(shard: GroupShard, at: Moment, out: Effects) -> None:
    """Look for expired offsets from now on."""
    out.timer(EXPIRE, _next_sweep(shard, at))


def on_image(
    shard: GroupShard,
    image: MetadataImage,  # noqa: ARG001
    delta: MetadataDelta | None,
    at: Moment,
    out: Effects,
) -> None:
    """Offsets of deleted topics go, in a step of their own: there may be very many."""
    if delta is None or delta.topics is None or not delta.topics.deleted:
        return
    for topic in delta.topics.deleted.values():
        shard.offsets.deleted_topics[topic.id] = topic.name
    out.timer(FORGET, at.mono)


def _on_expire(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:  # noqa: ARG001
    is_done = sweep(shard, at, out)
    out.timer(EXPIRE, _next_sweep(shard, at) if is_done else at.mono)
    # Records that the log does not take now are written the next time.
    out.undo = lambda _, amends: amends.timer(EXPIRE, _next_sweep(shard, at))


def _on_forget(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:  # noqa: ARG001
    before = dict(shard.offsets.deleted_topics)
    if not forget_deleted_topics(shard, out):
        out.timer(FORGET, at.mono)

    def undo(_: ErrorCode, amends: Effects) -> None:
        shard.offsets.deleted_topics = before | shard.offsets.deleted_topics
        amends.timer(FORGET, Millis(at.mono + RETRY_MS))

    out.undo = undo


def _next_sweep(shard: GroupShard, at: Moment) -> Millis:
    return Millis(at.mono + shard.settings.retention_check_ms)


TIMERS: dict[str, OnTimer] = {EXPIRE[0]: _on_expire, FORGET[0]: _on_forget}
