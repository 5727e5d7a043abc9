"""Carrying out what a member says: new wishes, a new target, a step towards it.

Both protocols come here: heartbeats, and JoinGroup of members that have not moved on yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.consumer.hashing import group_hash
from penstock.coordination.group.consumer.member import Member, State
from penstock.coordination.group.consumer.reconcile import Goal, reconcile
from penstock.coordination.group.consumer.records import (
    forget_partition_metadata,
    write_current,
    write_epoch,
    write_member,
)
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.consumer.regexes import RegexChange, change_regex
from penstock.coordination.group.consumer.sessions import REBALANCE, expect, expect_no_more
from penstock.coordination.group.consumer.subscriptions import same_names
from penstock.coordination.group.consumer.target import Target, next_target
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.group import ConsumerGroup
    from penstock.coordination.group.consumer.reconcile import Owned
    from penstock.coordination.group.consumer.subscriptions import Subscriptions
    from penstock.coordination.group.shard import GroupShard


class Change(NamedTuple):
    """What becomes of a member."""

    old: Member
    new: Member
    owned: Owned | None
    """What the client has; None if it does not say."""
    sees: Callable[[str], bool] | None = None
    """Which topics the client may know of; None: all."""


class Wishes(NamedTuple):
    """What the group wants after a change."""

    epoch: int
    subscriptions: Subscriptions
    changed: bool
    """Whether the member wants something else than before."""


def carry_out(
    shard: GroupShard, group: ConsumerGroup, change: Change, at: Moment, out: Effects
) -> Member | Refusal:
    """Write down what changes, and answer what becomes of the member in the end."""
    wishes = change_wishes(shard, group, change, at, out)
    if isinstance(wishes, Refusal):
        return wishes
    target = next_target(shard, group, wishes.epoch, wishes.subscriptions, change.new, at, out)
    return move_towards(shard, group, change, wishes, target, at, out)


def change_wishes(
    shard: GroupShard, group: ConsumerGroup, change: Change, at: Moment, out: Effects
) -> Wishes | Refusal:
    """Write down the member, and a new epoch of the group if it wants something else now."""
    old, new = change.old, change.new
    if new != old:
        write_member(out, group.group_id, new)
    names_changed = not same_names(new.topics, old.topics)
    by_regex = change_regex(shard, group, old, new, at, out, change.sees)
    if isinstance(by_regex, Refusal):
        return by_regex
    changed = names_changed or by_regex is not RegexChange.NONE
    bumps = names_changed or by_regex is RegexChange.RESOLVED
    if new.classic is not None:
        bumps = changed  # it cannot come back for what is resolved later
    before = group.members.get(new.member_id) or group.static_member(new.instance_id)
    wanted = group.subscriptions.after([(before, new)]) if changed else group.subscriptions
    epoch = group.epoch
    if bumps or group.must_check_topics:
        around = shard.consumers
        metadata_hash = group_hash(wanted.topics, around.image, around.hashes)
        if bumps or metadata_hash != group.metadata_hash:
            epoch += 1
            write_epoch(out, group.group_id, epoch, metadata_hash)
        group.checked_at_epoch = epoch
        if group.has_partition_metadata:
            forget_partition_metadata(out, group.group_id)
    return Wishes(epoch, wanted, changed)


def move_towards(
    shard: GroupShard,
    group: ConsumerGroup,
    change: Change,
    wishes: Wishes,
    target: Target,
    at: Moment,
    out: Effects,
) -> Member | Refusal:
    """The member one step nearer to its target."""
    member = change.new
    if not wishes.changed and member.is_settled_at(target.epoch):
        return member
    topics = shard.consumers.topic_ids(wishes.subscriptions.topics_of(member))
    goal = Goal(target.epoch, target.partitions, topics, group.is_held)
    moved = reconcile(member, goal, wishes.changed, change.owned)
    if moved is None:
        return Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in an unknown state. The member must abandon all its "
            "partitions and rejoin.",
        )
    if moved == member:
        return member
    write_current(out, group.group_id, moved)
    if moved.classic is None:
        if moved.state is State.UNREVOKED_PARTITIONS:
            timeout_ms = moved.rebalance_timeout_ms
            expect(REBALANCE, group, moved.member_id, timeout_ms, at, out)
        else:
            expect_no_more(REBALANCE, group, moved.member_id, out)
    return moved
