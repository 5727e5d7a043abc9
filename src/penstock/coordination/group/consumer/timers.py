"""What consumer groups do when time passes or the cluster's metadata changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard, OnTimer
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage

TIMERS: dict[str, OnTimer] = {}


def on_loaded(shard: GroupShard, at: Moment, out: Effects) -> None:
    """Set the timers of all groups."""


def on_image(
    shard: GroupShard,
    image: MetadataImage,
    delta: MetadataDelta | None,
    at: Moment,
    out: Effects,
) -> None:
    """Look at the groups whose topics changed."""
