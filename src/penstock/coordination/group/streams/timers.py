"""What streams groups do when time passes or the cluster's metadata changes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.coordination.group.streams.group import StreamsGroup
from penstock.coordination.group.streams.leaving import fence
from penstock.coordination.group.streams.member import State
from penstock.coordination.group.streams.sessions import (
    BEGIN,
    REBALANCE,
    SESSION,
    begin_session,
    expect_release,
)
from penstock.coordination.group.streams.target import write_new_target
from penstock.metadata.configs import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard, OnTimer
    from penstock.coordination.group.streams.member import Member
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage

log = logging.getLogger("penstock.coordination.group")


def on_loaded(shard: GroupShard, at: Moment, out: Effects) -> None:
    """The members that the log knows have one session's time to show themselves."""
    for group in _groups(shard):
        _restart_sessions(shard, group, at, out)
        for member in group.members.values():
            if member.state is State.UNREVOKED_TASKS:
                timeout_ms = member.rebalance_timeout_ms
                expect_release(group, member.member_id, timeout_ms, at, out)


def on_image(
    shard: GroupShard,
    image: MetadataImage,
    delta: MetadataDelta | None,
    at: Moment,
    out: Effects,
) -> None:
    """Have the groups whose topics changed look at them, each with its next heartbeat."""
    around = shard.streams
    around.image = image
    if delta is None:
        around.forget_all_paces()
        for group in _groups(shard):
            group.checked_at_epoch = None
            # Sessions began before it was known which groups have a pace of their own.
            _restart_sessions(shard, group, at, out)
        return
    if delta.topics is not None:
        names = {it.name for it in delta.topics.changed.values()}
        names.update(it.name for it in delta.topics.deleted.values())
        for group in _groups(shard):
            if group.topology is not None and not names.isdisjoint(group.topology.required):
                group.checked_at_epoch = None
    if delta.configs is not None:
        changed = [name for kind, name in delta.configs.changed if kind == GROUP]
        around.forget_paces(changed)
        for name in changed:
            named = shard.groups.get(name)
            if isinstance(named, StreamsGroup):
                _restart_sessions(shard, named, at, out)


def _groups(shard: GroupShard) -> Iterable[StreamsGroup]:
    return [it for it in shard.groups.values() if isinstance(it, StreamsGroup)]


def _restart_sessions(shard: GroupShard, group: StreamsGroup, at: Moment, out: Effects) -> None:
    """A session may be shorter from now on than the timer that was set for it."""
    session_ms = shard.streams.pace(group.group_id).session_ms
    for member_id in group.members:
        begin_session(group, member_id, session_ms, at, out)


def _find(shard: GroupShard, key: Any) -> tuple[StreamsGroup, Member] | None:
    group = shard.groups.get(key[1])
    if not isinstance(group, StreamsGroup):
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
    fence(group, member, out)


def _on_rebalance(shard: GroupShard, key: Any, _at: Moment, out: Effects) -> None:
    found = _find(shard, key)
    if found is None:
        return
    group, member = found
    if member.state is State.UNREVOKED_TASKS:
        log.info("group %s: %s did not let go in time", group.group_id, member.member_id)
        fence(group, member, out)


def _on_begin(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    """Nobody waits any more: tasks are assigned, and members hear of them when they report."""
    group = shard.groups.get(key[1])
    shard.streams.delayed_until.pop(key[1], None)
    if not isinstance(group, StreamsGroup) or not group.members:
        return
    configured = group.configured
    if configured is None or group.target_epoch >= group.epoch:
        return  # the next heartbeat looks at the topics, and assigns
    standbys = shard.streams.pace(group.group_id).standbys
    write_new_target(group, group.members, group.epoch, configured, standbys, at, out)


TIMERS: dict[str, OnTimer] = {
    SESSION: _on_session,
    REBALANCE: _on_rebalance,
    BEGIN: _on_begin,
}
