"""Which offsets have outlived their use: a few at a time, so that a million do not stop the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard


def sweep(shard: GroupShard, at: Moment, out: Effects) -> bool:
    """Write tombstones for what has expired; whether all groups have been looked at."""
    return True
