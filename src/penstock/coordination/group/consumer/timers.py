"""What consumer groups do when time passes or the cluster's metadata changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.leaving import fence
from penstock.coordination.group.consumer.member import State
from penstock.coordination.group.consumer.sessions import (
    CLASSIC_JOIN,
    CLASSIC_SYNC,
    REBALANCE,
    SESSION,
    begin_session,
    expect,
)
from penstock.coordination.group.migration.downgrading import DOWNGRADED, on_downgraded
from penstock.metadata.configs import GROUP

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.member import Member
    from penstock.coordination.group.shard import GroupShard, OnTimer
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import TopicsDelta

log = logging.getLogger("penstock.coordination.group")


def on_loaded(shard: GroupShard, at: Moment, out: Effects) -> None:
    """The members that the log knows have one session's time to show themselves."""
    for group in list(shard.groups.values()):
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                begin_session(group, member.member_id, session_ms(shard, group, member), at, out)
                if member.state is State.UNREVOKED_PARTITIONS and member.classic is None:
                    timeout_ms = member.rebalance_timeout_ms
                    expect(REBALANCE, group, member.member_id, timeout_ms, at, out)


def session_ms(shard: GroupShard, group: ConsumerGroup, member: Member) -> int:
    """How long a member may be silent. Who speaks the classic protocol said so itself."""
    if member.classic is not None:
        return member.classic.session_timeout_ms
    return shard.consumers.pace(group.group_id).session_ms


def on_image(
    shard: GroupShard,
    image: MetadataImage,
    delta: MetadataDelta | None,
    at: Moment,
    out: Effects,
) -> None:
    """Have the groups whose topics changed look at them, each with its next heartbeat."""
    around = shard.consumers
    is_first = around.newest_topics_at < 0
    around.image = image
    if delta is None:
        around.hashes.clear()
        around.forget_all_paces()
        around.newest_topics_at = image.offset
        for group in shard.groups.values():
            if isinstance(group, ConsumerGroup):
                group.checked_at_epoch = None
        # Sessions began before it was known which groups have a pace of their own.
        _restart_sessions(shard, image.configs.names(GROUP), at, out)
        return
    if delta.topics is not None:
        if is_first or any(it.before is None for it in delta.topics.changed.values()):
            around.newest_topics_at = image.offset
        _recheck(shard, delta.topics)
    if delta.configs is not None:
        changed = [name for kind, name in delta.configs.changed if kind == GROUP]
        around.forget_paces(changed)
        _restart_sessions(shard, changed, at, out)


def _recheck(shard: GroupShard, topics: TopicsDelta) -> None:
    names = {it.name for it in topics.changed.values()}
    names.update(it.name for it in topics.deleted.values())
    for name in names:
        shard.consumers.hashes.pop(name, None)
    for group in shard.groups.values():
        if isinstance(group, ConsumerGroup) and any(map(group.subscriptions.wants, names)):
            group.checked_at_epoch = None


def _restart_sessions(shard: GroupShard, group_ids: list[str], at: Moment, out: Effects) -> None:
    """A session may be shorter from now on than the timer that was set for it."""
    for group_id in group_ids:
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                begin_session(group, member.member_id, session_ms(shard, group, member), at, out)


def _find(shard: GroupShard, key: Any) -> tuple[ConsumerGroup, Member] | None:
    group = shard.groups.get(key[1])
    if not isinstance(group, ConsumerGroup):
        return None
    member = group.members.get(key[2])
    return None if member is None else (group, member)


def _on_session(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    found = _find(shard, key)
    if found is None:
        return
    group, member = found
    deadline = group.deadlines.pop(member.member_id, at.mono)
    if deadline > at.mono:
        out.timer(key, deadline)
        return
    log.info("group %s: %s was not heard of in time", group.group_id, member.member_id)
    fence(shard, group, [member], at, out)


def _on_rebalance(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    found = _find(shard, key)
    if found is None:
        return
    group, member = found
    if member.state is State.UNREVOKED_PARTITIONS:
        log.info("group %s: %s did not let go in time", group.group_id, member.member_id)
        fence(shard, group, [member], at, out)


def _on_classic(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    found = _find(shard, key)
    if found is None:
        return
    group, member = found
    if member.classic is not None:
        log.info("group %s: %s did not join or sync in time", group.group_id, member.member_id)
        fence(shard, group, [member], at, out)


TIMERS: dict[str, OnTimer] = {
    SESSION: _on_session,
    REBALANCE: _on_rebalance,
    CLASSIC_JOIN: _on_classic,
    CLASSIC_SYNC: _on_classic,
    DOWNGRADED: on_downgraded,
}
