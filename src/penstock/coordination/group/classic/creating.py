"""How classic groups come to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import ClassicGroup

if TYPE_CHECKING:
    from penstock.coordination.group.shard import GroupShard


def simple_group(shard: GroupShard, group_id: str) -> ClassicGroup:
    """A group for offsets that somebody commits without being a member of anything.

    Only in memory: its offsets are what the log knows of it.
    """
    group = shard.groups[group_id] = ClassicGroup(group_id)
    return group
