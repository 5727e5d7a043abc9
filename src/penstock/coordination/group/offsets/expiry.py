"""Which offsets have outlived their use.

An offset expires when nobody has used it for as long as the node retains offsets. What counts as
use depends on the group: for an empty group the time when it became empty, for all others the
commit itself; and the offsets of a topic that members subscribe to never expire. A very old client
may have said itself when an offset expires. A group without members or offsets goes as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.offsets.committed import is_expired
from penstock.coordination.group.offsets.tombstones import RECORDS_PER_STEP, tombstone

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.group import Group
    from penstock.coordination.group.shard import GroupShard

LOOKS_PER_STEP = 5_000
"""Offsets and groups after which requests get their turn: looking takes half a microsecond."""


def sweep(shard: GroupShard, at: Moment, out: Effects) -> bool:
    """Tombstones for what has expired, as many as a step should write; whether that was all."""
    table = shard.offsets
    if not table.sweep:
        table.sweep = list(shard.groups)
    out.atomic = False
    looked = 0
    while table.sweep:
        if looked >= LOOKS_PER_STEP:
            return False
        group = shard.groups.get(table.sweep[-1])
        if group is not None:
            looked += 1 + sum(map(len, table.topics(group.group_id).values()))
            if not _visit(shard, group, at, out):
                return False  # there is more in this group: it is looked at again
        table.sweep.pop()
    return True


def _visit(shard: GroupShard, group: Group, at: Moment, out: Effects) -> bool:
    """Whether all that has expired in the group found its place in this step."""
    if group.kind == "share":
        return True  # it has no offsets here, and stays until somebody deletes it
    table, group_id = shard.offsets, group.group_id
    topics = table.topics(group_id)
    is_empty = group.is_empty
    if topics and not is_empty and not _may_expire(group):
        return True
    since = group.offsets_expire_from() if is_empty else None
    retention_ms = shard.settings.retention_ms
    all_expired = True
    for topic, partitions in topics.items():
        if group.subscribes_to(topic):
            all_expired = False
            continue
        for partition, packed in partitions.items():
            if not is_expired(packed, at.wall, retention_ms, since) or table.is_pending(
                group_id, topic, partition
            ):
                all_expired = False
                continue
            if len(out.records) >= RECORDS_PER_STEP:
                return False
            tombstone(out, group_id, topic, partition)
    if all_expired and is_empty and not table.has_open_transactions(group_id):
        group.delete(out)
    return True


def _may_expire(group: Group) -> bool:
    """Whether it is known which topics the members of a group subscribe to."""
    if group.kind != "classic":
        return True
    return group.protocol_type == "consumer" and group.state_name == "Stable"
