"""What time does to classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.rebalancing import (
    JOIN,
    SYNC,
    complete,
    dismiss,
    on_join_time_up,
    on_sync_time_up,
    prepare,
    rebalance,
)
from penstock.coordination.group.classic.sessions import SESSION, keep_alive
from penstock.coordination.group.classic.states import State

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard, OnTimer


def on_loaded(shard: GroupShard, at: Moment, out: Effects) -> None:
    """The members that the log knows have one session's time to show themselves."""
    for group in shard.groups.values():
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                keep_alive(group, member, at, out)
            if len(group.members) > shard.settings.size_max:
                # The bound was lowered: in a rebalance the last to come are turned away.
                prepare(shard, group, at, out)


def _find(shard: GroupShard, key: Any) -> ClassicGroup | None:
    group = shard.groups.get(key[1])
    return group if isinstance(group, ClassicGroup) else None


def on_session(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    """A member's session may have ended, or an id was given out to nobody."""
    group, member_id = _find(shard, key), key[2]
    if group is None:
        return
    if member_id in group.pending:
        group.remove(member_id)
        if group.state is State.PREPARING and group.all_joined:
            complete(group, at, out)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    member.armed = None
    if member.deadline is not None and member.deadline > at.mono:
        keep_alive(group, member, at, out, member.deadline - at.mono)
    elif member.is_new or (member_id not in group.joins and member_id not in group.syncs):
        expel(shard, group, member_id, at, out)


def expel(shard: GroupShard, group: ClassicGroup, member_id: str, at: Moment, out: Effects) -> None:
    """A member has failed: the others share its work."""
    dismiss(group, member_id, out)
    if group.state in (State.STABLE, State.COMPLETING):
        rebalance(shard, group, at, out)
    elif group.state is State.PREPARING and group.all_joined:
        complete(group, at, out)


def on_join(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    """The time for joining is over."""
    group = _find(shard, key)
    if group is not None:
        on_join_time_up(shard, group, at, out)


def on_sync(shard: GroupShard, key: Any, at: Moment, out: Effects) -> None:
    """The time for asking for an assignment is over."""
    group = _find(shard, key)
    if group is not None:
        on_sync_time_up(shard, group, at, out)


TIMERS: dict[str, OnTimer] = {SESSION: on_session, JOIN: on_join, SYNC: on_sync}
