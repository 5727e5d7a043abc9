"""From one generation to the next: everyone joins again, the leader assigns, everyone syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.records import group_value, write
from penstock.coordination.group.classic.replies import joined, release, sync_refused
from penstock.coordination.group.classic.sessions import forget, keep_alive
from penstock.coordination.group.classic.states import Event, State
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.classic.group import ClassicGroup
    from penstock.coordination.group.shard import GroupShard

JOIN = "classic-join"
SYNC = "classic-sync"


def rebalance(shard: GroupShard, group: ClassicGroup, at: Moment, out: Effects) -> None:
    """Something changed: begin a rebalance, or see whether the one under way is complete."""
    if group.state is State.PREPARING:
        go_on(group, at, out)
    else:
        prepare(shard, group, at, out)


def go_on(group: ClassicGroup, at: Moment, out: Effects) -> None:
    """Complete the joining if nobody is missing; the first one waits for its delay regardless."""
    if group.state is State.PREPARING and group.settling_ms is None and group.all_joined:
        complete(group, at, out)


def prepare(shard: GroupShard, group: ClassicGroup, at: Moment, out: Effects) -> None:
    """Have everyone join again."""
    if group.state is State.COMPLETING:
        _call_off_assignment(group, at, out)
    group.unsynced.clear()
    out.cancel((SYNC, group.group_id))
    was_empty = group.state is State.EMPTY
    group.move(Event.REBALANCE, at.wall)
    if was_empty:
        # Members of a new group start at about the same time: one rebalance for all of them.
        delay = shard.settings.initial_rebalance_delay_ms
        group.settling_step_ms = delay
        group.settling_ms = max(group.rebalance_timeout_ms - delay, 0)
        group.newcomers = False
        _set_join_timer(group, delay, at, out)
    elif group.all_joined:
        complete(group, at, out)
    else:
        _set_join_timer(group, group.rebalance_timeout_ms, at, out)


def _call_off_assignment(group: ClassicGroup, at: Moment, out: Effects) -> None:
    """Nobody gets what the leader is working out."""
    for member in group.members.values():
        member.assignment = b""
    for member_id, ticket in group.syncs.items():
        out.reply(ticket, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        # While it waited its session could not end, and nothing else would end it now.
        keep_alive(group, group.members[member_id], at, out)
    group.syncs.clear()


def _set_join_timer(group: ClassicGroup, span_ms: int, at: Moment, out: Effects) -> None:
    out.timer((JOIN, group.group_id), Millis(at.mono + span_ms))


def on_join_time_up(shard: GroupShard, group: ClassicGroup, at: Moment, out: Effects) -> None:
    """Those who have not joined by now are too late, unless a new group is still growing."""
    if group.state is not State.PREPARING:
        return
    remaining = group.settling_ms
    if remaining and group.newcomers:
        group.newcomers = False
        step = min(shard.settings.initial_rebalance_delay_ms, remaining)
        group.settling_ms = max(remaining - group.settling_step_ms, 0)
        group.settling_step_ms = step
        _set_join_timer(group, step, at, out)
    else:
        complete(group, at, out)


def complete(group: ClassicGroup, at: Moment, out: Effects) -> None:
    """Begin the next generation with those who have joined, and with static members."""
    out.cancel((JOIN, group.group_id))
    for member in [it for it in group.members.values() if not it.is_static]:
        if member.member_id not in group.joins:
            group.remove(member.member_id)
            forget(group, member.member_id, out)
    if group.members and not group.elect():
        # Only static members, and not one of them is here: they keep their places until their
        # sessions end.
        _set_join_timer(group, group.rebalance_timeout_ms, at, out)
        return
    group.settling_ms = None
    group.generation += 1
    if group.members:
        _announce_generation(group, at, out)
    else:
        group.protocol_name = None
        group.topics = group.find_topics()
        group.move(Event.DESERTED, at.wall)
        # Should the log not take it, its last generation comes back after a failover, and its
        # members' sessions end in turn: nothing to undo.
        write(group, group_value(group, {}), out)


def _announce_generation(group: ClassicGroup, at: Moment, out: Effects) -> None:
    group.protocol_name = group.choose_protocol()
    group.topics = group.find_topics()
    group.move(Event.JOINED, at.wall)
    for member in group.members.values():
        ticket = group.joins.pop(member.member_id, None)
        if ticket is not None:
            out.reply(ticket, joined(group, member.member_id))
        member.is_new = False
        keep_alive(group, member, at, out)
    group.unsynced = set(group.members)
    out.timer((SYNC, group.group_id), Millis(at.mono + group.rebalance_timeout_ms))


def on_sync_time_up(shard: GroupShard, group: ClassicGroup, at: Moment, out: Effects) -> None:
    """Members that never asked for their assignment are gone; the others share their work."""
    if group.state not in (State.COMPLETING, State.STABLE) or not group.unsynced:
        return
    for member_id in sorted(group.unsynced):
        group.remove(member_id)
        forget(group, member_id, out)
    prepare(shard, group, at, out)


def dismiss(group: ClassicGroup, member_id: str, out: Effects) -> None:
    """Take a member out of the group; if it waits for something, it learns that it is out."""
    release(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID, out)
    group.remove(member_id)
    forget(group, member_id, out)
