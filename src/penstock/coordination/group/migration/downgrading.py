"""A consumer group becomes a classic group, because nobody speaks the new protocol any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.classic.group import CONSUMER, ClassicGroup
from penstock.coordination.group.classic.member import Member as ClassicMember
from penstock.coordination.group.classic.rebalancing import rebalance
from penstock.coordination.group.classic.records import VALUE_VERSION, group_key, group_value
from penstock.coordination.group.classic.sessions import keep_alive
from penstock.coordination.group.consumer.group import NO_TARGET
from penstock.coordination.group.consumer.records import forget_group
from penstock.coordination.group.consumer.sessions import end_session
from penstock.coordination.group.migration.embedded import version_of, write_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.group import ConsumerGroup
    from penstock.coordination.group.consumer.member import Member
    from penstock.coordination.group.group import Group
    from penstock.coordination.group.shard import GroupShard
    from penstock.model.errors import ErrorCode

log = logging.getLogger("penstock.coordination.group")

POLICIES = ("bidirectional", "downgrade")
"""Those of `group.consumer.migration.policy` that allow it."""

DOWNGRADED = "consumer-downgraded"
"""The timer that comes once the classic group is there."""


def replace_empty(
    shard: GroupShard, group: Group, out: Effects, join_anew: Callable[[], None]
) -> None:
    """An empty group of another kind gives way to the classic one that `join_anew` makes."""
    group_id = group.group_id
    group.delete(out)
    del shard.groups[group_id]
    join_anew()
    if group_id not in shard.groups:  # nobody was let in
        shard.groups[group_id] = group
        out.records.clear()
        return
    undo = out.undo

    def bring_back(error: ErrorCode, amends: Effects) -> None:
        if undo is not None:
            undo(error, amends)
        shard.groups[group_id] = group

    out.undo = bring_back


def downgrade_without(
    shard: GroupShard, group: ConsumerGroup, leaving: Sequence[Member], at: Moment, out: Effects
) -> bool:
    """Convert the group if all who stay speak the classic protocol; answers whether it did."""
    gone = {member.member_id for member in leaving}
    staying = [it for it in group.members.values() if it.member_id not in gone]
    if not staying or not may_downgrade(shard, staying):
        return False
    downgrade(shard, group, {it.member_id: it for it in staying}, group.members, True, at, out)
    return True


def may_downgrade(shard: GroupShard, staying: Collection[Member]) -> bool:
    """Whether a classic group of these members is possible and allowed."""
    if any(it.classic is None for it in staying):
        return False
    allowed = shard.settings.consumer_migration in POLICIES
    return allowed and len(staying) <= shard.settings.size_max


def downgrade(
    shard: GroupShard,
    group: ConsumerGroup,
    staying: dict[str, Member],
    forgotten: Collection[str],
    must_rebalance: bool,
    at: Moment,
    out: Effects,
) -> None:
    """Write the classic group in place of this one.

    `staying` are the members by the id under which the target knows them; `forgotten` the ids whose
    records end.
    """
    forget_group(out, group.group_id, forgotten, group.subscriptions.resolved)
    for member_id in group.members:
        end_session(group, member_id, out)
    classic = ClassicGroup(group.group_id, at.wall)
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER
    for member in staying.values():
        classic.add(_classic_member(member))
    classic.protocol_name = name = classic.choose_protocol()
    assert name is not None
    topics = shard.consumers.image.topics
    assignments = {
        member.member_id: write_assignment(
            group.target.get(target_id, NO_TARGET),
            topics,
            version_of(classic.members[member.member_id].metadata(name)),
        )
        for target_id, member in staying.items()
    }
    out.record(group_key(group.group_id), group_value(classic, assignments), VALUE_VERSION)
    out.timer((DOWNGRADED, group.group_id, must_rebalance), at.mono)
    log.info("group %s becomes a classic group", group.group_id)


def _classic_member(member: Member) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        tuple((it.name, bytes(it.metadata)) for it in member.classic.supported_protocols),
    )


def on_downgraded(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    """The classic group is in the log: look after its members, and have them share anew."""
    _, group_id, must_rebalance = key
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        return
    for member in group.members.values():
        keep_alive(group, member, at, out)
    if must_rebalance and not group.is_empty:
        rebalance(shard, group, at, out)
