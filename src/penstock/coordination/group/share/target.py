"""The target: which partitions each member should have, computed anew for each epoch of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.consumer.assignors.wish import Partitions, Wish
from penstock.coordination.group.share.assigning import assign_simply
from penstock.coordination.group.share.member import NOTHING
from penstock.coordination.group.share.records import write_target, write_target_epoch

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.share.group import ShareGroup
    from penstock.coordination.group.share.member import Member


class Target(NamedTuple):
    """One member's part of the target."""

    epoch: int
    partitions: Partitions


def next_target(
    shard: GroupShard, group: ShareGroup, epoch: int, member: Member, at: Moment, out: Effects
) -> Target:
    """What `member` should get at the group's `epoch`, for which a new target may be written.

    `member` is as it will be once this step's records are replayed. Targets come no faster than
    the group's configuration allows; until then the last one counts.
    """
    if group.target_epoch >= epoch or not _is_due(shard, group, at):
        return Target(group.target_epoch, group.target.get(member.member_id, NOTHING))
    members = {**group.members, member.member_id: member}
    around = shard.consumers
    wishes = {
        it: Wish(around.topic_ids(one.topics), group.target.get(it, NOTHING))
        for it, one in members.items()
    }
    ready = {it: topic.partitions for it, topic in group.readiness.initialized.items()}
    assigned = assign_simply(wishes, ready)
    for member_id, partitions in assigned.items():
        if group.target.get(member_id) != partitions:
            write_target(out, group.group_id, member_id, partitions)
    write_target_epoch(out, group.group_id, epoch, at.wall)
    return Target(epoch, assigned[member.member_id])


def _is_due(shard: GroupShard, group: ShareGroup, at: Moment) -> bool:
    # As long as nobody has anything there is nothing to move: a group's first partitions need not
    # wait because it was found a moment ago that none were ready.
    if group.target_at == 0 or not any(group.target.values()):
        return True
    pace = shard.shares.pace(group.group_id, shard.consumers.image)
    return not at.is_soon_after(group.target_at, pace.assignment_ms)
