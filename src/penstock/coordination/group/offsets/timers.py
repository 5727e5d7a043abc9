"""What time and deleted topics do to committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.group.offsets.expiry import sweep
from penstock.coordination.group.offsets.forgetting import forget_deleted_topics

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard, OnTimer
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.model.ids import Millis

EXPIRE = ("offsets-expire",)
FORGET = ("offsets-forget",)


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


def _on_forget(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:  # noqa: ARG001
    if not forget_deleted_topics(shard, out):
        out.timer(FORGET, at.mono)


def _next_sweep(shard: GroupShard, at: Moment) -> Millis:
    return type(at.mono)(at.mono + shard.settings.retention_check_ms)


TIMERS: dict[str, OnTimer] = {EXPIRE[0]: _on_expire, FORGET[0]: _on_forget}
