"""SyncGroup: the leader brings the assignment, everyone takes their share of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.rebalancing import SYNC, rebalance
from penstock.coordination.group.classic.records import group_value, write
from penstock.coordination.group.classic.replies import sync_refused, synced, wait_for_sync
from penstock.coordination.group.classic.sessions import keep_alive
from penstock.coordination.group.classic.states import State
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.migration.speaking import sync as sync_consumer
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.coordination.effects import Effects, Moment, Ticket
    from penstock.coordination.group.shard import GroupShard


class Sync(NamedTuple):
    """A request for one's share of the work."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]
    """From the leader, what each member is to do; from the others nothing."""


def sync(shard: GroupShard, at: Moment, out: Effects, ticket: Ticket, asked: Sync) -> None:
    """Answer if there is an assignment, else wait for the leader's."""
    group = shard.groups.get(asked.group_id)
    if isinstance(group, ConsumerGroup) and group.members:
        sync_consumer(shard, group, at, out, ticket, asked)
        return
    if not isinstance(group, ClassicGroup) or group.is_empty:
        out.reply(ticket, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    error = _check(group, asked)
    if error:
        out.reply(ticket, sync_refused(error))
        return
    group.unsynced.discard(asked.member_id)
    if not group.unsynced:
        out.cancel((SYNC, group.group_id))
    if group.state is State.STABLE:
        out.reply(ticket, synced(group, group.members[asked.member_id].assignment))
        return
    wait_for_sync(group, asked.member_id, ticket, out)
    if asked.member_id == group.leader_id:
        _assign(shard, group, at, out, asked.assignments)


def _check(group: ClassicGroup, asked: Sync) -> ErrorCode:
    error = group.check_member(asked.member_id, asked.instance_id)
    if error:
        return error
    if asked.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(asked.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _differ(asked.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is State.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(theirs: str | None, ours: str | None) -> bool:
    """Whether both say something, and not the same: older versions say nothing."""
    return theirs is not None and ours is not None and theirs != ours


def _assign(
    shard: GroupShard,
    group: ClassicGroup,
    at: Moment,
    out: Effects,
    assignments: Mapping[str, bytes],
) -> None:
    """Into the log with it; once it is there the group is stable and all who wait are told."""

    def start_over(error: ErrorCode, amends: Effects) -> None:  # noqa: ARG001
        rebalance(shard, group, at, amends)

    write(group, group_value(group, assignments), out, start_over)
    for member_id, ticket in group.syncs.items():
        out.reply(ticket, synced(group, assignments.get(member_id, b"")))
        # While it waited its session could not end.
        keep_alive(group, group.members[member_id], at, out)
    group.syncs.clear()
