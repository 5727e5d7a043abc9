"""What time does to classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard, OnTimer

TIMERS: dict[str, OnTimer] = {}


def on_loaded(shard: GroupShard, at: Moment, out: Effects) -> None:
    """The members that the log knows have their session to show themselves."""
