"""The target: which partitions each member should have, computed anew for each epoch of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.consumer.assignors import ASSIGNORS, assignor_names
from penstock.coordination.group.consumer.assignors.wish import Partitions, Wish
from penstock.coordination.group.consumer.group import NO_TARGET, ConsumerGroup, most_wanted
from penstock.coordination.group.consumer.records import write_target, write_target_epoch

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.member import Member
    from penstock.coordination.group.consumer.subscriptions import Subscriptions
    from penstock.coordination.group.consumer.surroundings import Surroundings
    from penstock.coordination.group.shard import GroupShard


class Target(NamedTuple):
    """One member's part of the target."""

    epoch: int
    partitions: Partitions


def next_target(
    shard: GroupShard,
    group: ConsumerGroup,
    epoch: int,
    wanted: Subscriptions,
    member: Member,
    at: Moment,
    out: Effects,
) -> Target:
    """What `member` should get at the group's `epoch`, for which a new target may be written.

    `wanted` and `member` are as they will be once this step's records are replayed. Targets come
    no faster than the group's configuration allows; until then the last one counts.
    """
    former = group.static_member(member.instance_id)
    if group.target_epoch >= epoch or not _is_due(shard, group, at):
        known = group.target.get(member.member_id)
        if known is None and former is not None:
            known = group.target.get(former.member_id)
        return Target(group.target_epoch, known or NO_TARGET)
    members = dict(group.members)
    if former is not None and former.member_id != member.member_id:
        members.pop(former.member_id, None)
    members[member.member_id] = member
    default = assignor_names(shard.settings.consumer_assignors)[0]
    assign = ASSIGNORS[most_wanted(members.values(), default)]
    wishes = _wishes(shard.consumers, group, members, wanted, former)
    different = {id(wish.topics): wish.topics for wish in wishes.values()}
    topics = frozenset[bytes]().union(*different.values())
    by_id = shard.consumers.image.topics.by_id
    assigned = assign(wishes, {topic: len(by_id[topic].partitions) for topic in topics})
    for member_id in wishes:
        partitions = assigned.get(member_id, NO_TARGET)
        if group.target.get(member_id) != partitions:
            write_target(out, group.group_id, member_id, partitions)
    write_target_epoch(out, group.group_id, epoch, at.wall)
    return Target(epoch, assigned.get(member.member_id, NO_TARGET))


def _is_due(shard: GroupShard, group: ConsumerGroup, at: Moment) -> bool:
    if group.target_at == 0:
        return True
    pace = shard.consumers.pace(group.group_id)
    return not at.is_soon_after(group.target_at, pace.assignment_ms)


def _wishes(
    around: Surroundings,
    group: ConsumerGroup,
    members: dict[str, Member],
    wanted: Subscriptions,
    former: Member | None,
) -> dict[str, Wish]:
    """Members as the assignor sees them. A static one that comes back has what it had before."""
    wishes = {}
    for member_id, member in members.items():
        topics = around.topic_ids(wanted.topics_of(member))
        owner = member_id
        if former is not None and member.instance_id == former.instance_id:
            owner = former.member_id
        wishes[member_id] = Wish(topics, group.target.get(owner, NO_TARGET), member.instance_id)
    return wishes
