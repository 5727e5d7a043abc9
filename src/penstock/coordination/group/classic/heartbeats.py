"""Heartbeat: a member says that it is alive, and hears whether it has to join again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.sessions import is_kept_alive, keep_alive
from penstock.coordination.group.classic.states import State
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.migration.speaking import heartbeat as consumer_heartbeat
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard
    from penstock.model.ids import Millis


def heartbeat(
    shard: GroupShard,
    at: Moment,
    out: Effects,
    group_id: str,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> ErrorCode:
    """What the member has to know.

    That it is alive is noted at once, and it hears so at once: a coordinator that waits for its
    replicas would otherwise let every member believe that its session is over.
    """
    error = _heartbeat(shard, at, out, group_id, member_id, instance_id, generation)
    out.prompt = error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    return error


def is_fine(
    shard: GroupShard,
    group_id: str,
    member_id: str,
    instance_id: str | None,
    generation: int,
    now: Millis,
) -> bool:
    """Whether a heartbeat is of a member that has nothing to hear; that it is alive is noted then.

    Nearly all are. They need no step: nothing is written, and no timer moves. False says nothing,
    and changes nothing: `heartbeat` knows what to answer.
    """
    group = shard.groups.get(group_id)
    if (
        type(group) is not ClassicGroup
        or generation != group.generation
        or group.state is State.PREPARING
        or group.check_member(member_id, instance_id)
    ):
        return False
    return is_kept_alive(group.members[member_id], now)


def _heartbeat(
    shard: GroupShard,
    at: Moment,
    out: Effects,
    group_id: str,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> ErrorCode:
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return consumer_heartbeat(group, at, out, member_id, instance_id, generation)
    if not isinstance(group, ClassicGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(member_id, instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    keep_alive(group, group.members[member_id], at, out)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else ErrorCode.NONE
