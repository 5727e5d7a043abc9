"""The target: which tasks each member should have, computed anew for each epoch of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.streams.assignor import Worker, assign
from penstock.coordination.group.streams.reconcile import Goal
from penstock.coordination.group.streams.records import write_target, write_target_epoch
from penstock.coordination.group.streams.sessions import BEGIN
from penstock.coordination.group.streams.status import StatusCode, status
from penstock.coordination.group.streams.tasks import NO_ASSIGNMENT
from penstock.model.ids import Millis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.streams.configuring import Configured
    from penstock.coordination.group.streams.group import StreamsGroup
    from penstock.coordination.group.streams.member import Member
    from penstock.coordination.group.streams.tasks import Assignment
    from penstock.protocol.generated.streams_group_heartbeat import Status

STANDBYS = "num.standby.replicas"
"""The one thing that can be said about assigning, under the name that records have for it."""


def assignment_configs(standbys: int) -> dict[str, str]:
    """How tasks are to be assigned, as records say it."""
    return {STANDBYS: str(standbys)}


def begin_delay(shard: GroupShard, group: StreamsGroup, at: Moment, out: Effects) -> None:
    """A group begins: give others a moment to join, before tasks are given away and taken back."""
    delay_ms = shard.streams.pace(group.group_id).delay_ms
    if delay_ms > 0 and not is_delayed(shard, group, at):
        until = Millis(at.mono + delay_ms)
        shard.streams.delayed_until[group.group_id] = until
        out.timer((BEGIN, group.group_id), until)


def is_delayed(shard: GroupShard, group: StreamsGroup, at: Moment) -> bool:
    """Whether the group still waits for more members."""
    return at.mono < shard.streams.delayed_until.get(group.group_id, 0)


def next_target(
    shard: GroupShard,
    group: StreamsGroup,
    epoch: int,
    configured: Configured,
    member: Member,
    at: Moment,
    out: Effects,
    statuses: list[Status],
) -> Goal:
    """What `member` should get at the group's `epoch`, for which a new target may be written.

    `member` is as it will be once this step's records are replayed. Targets come no faster than
    the group's configuration allows; until then the last one counts, and the member is told so.
    """
    if is_delayed(shard, group, at):
        what = "The group waits for more members before it assigns tasks."
        statuses.append(status(StatusCode.ASSIGNMENT_DELAYED, what))
        return Goal(group.target_epoch, NO_ASSIGNMENT)
    known = group.target.get(member.member_id, NO_ASSIGNMENT)
    if group.target_epoch >= epoch:
        return Goal(group.target_epoch, known)
    pace = shard.streams.pace(group.group_id)
    if group.target_at and at.is_soon_after(group.target_at, pace.assignment_ms):
        what = "Tasks were assigned a moment ago, and will be again in another."
        statuses.append(status(StatusCode.ASSIGNMENT_DELAYED, what))
        return Goal(group.target_epoch, known)
    members = {**group.members, member.member_id: member}
    assigned = write_new_target(group, members, epoch, configured, pace.standbys, at, out)
    return Goal(epoch, assigned[member.member_id])


def write_new_target(
    group: StreamsGroup,
    members: Mapping[str, Member],
    epoch: int,
    configured: Configured,
    standbys: int,
    at: Moment,
    out: Effects,
) -> Mapping[str, Assignment]:
    """Compute the target of an epoch, and write down what differs from the last one."""
    workers = {
        member_id: Worker(it.process_id, group.target.get(member_id, NO_ASSIGNMENT))
        for member_id, it in members.items()
    }
    assigned: Mapping[str, Assignment] = dict.fromkeys(members, NO_ASSIGNMENT)
    if configured.is_ready:
        assigned = assign(workers, configured.work, standbys)
    for member_id, tasks in assigned.items():
        if group.target.get(member_id) != tasks:
            write_target(out, group.group_id, member_id, tasks)
    write_target_epoch(out, group.group_id, epoch, at.wall)
    return assigned
