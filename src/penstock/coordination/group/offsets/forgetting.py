"""Offsets of topics that are gone: a topic that comes back under the name starts afresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects
    from penstock.coordination.group.shard import GroupShard


def forget_deleted_topics(shard: GroupShard, out: Effects) -> bool:
    """Write tombstones for the offsets of deleted topics; whether that was all."""
    return True
