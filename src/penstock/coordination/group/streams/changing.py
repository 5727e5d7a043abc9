"""Carrying out what a member says: its wishes, the topology, a new target, a step towards it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.coordination.group.consumer.hashing import group_hash
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.streams.configuring import Configured, configure
from penstock.coordination.group.streams.group import NOT_VALIDATED
from penstock.coordination.group.streams.member import Member, State
from penstock.coordination.group.streams.reconcile import reconcile
from penstock.coordination.group.streams.records import (
    write_current,
    write_epoch,
    write_member,
    write_topology,
)
from penstock.coordination.group.streams.sessions import expect_no_release, expect_release
from penstock.coordination.group.streams.status import StatusCode, status
from penstock.coordination.group.streams.target import (
    assignment_configs,
    begin_delay,
    next_target,
)
from penstock.coordination.group.streams.tasks import Assignment, each_task
from penstock.coordination.group.streams.topology import Topology, topology_of
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.streams.group import StreamsGroup
    from penstock.protocol.generated import streams_group_heartbeat as asked
    from penstock.protocol.generated.streams_group_heartbeat import Status


class Change(NamedTuple):
    """What a heartbeat says."""

    old: Member
    new: Member
    owned: Assignment | None
    """What the client has; None if it does not say."""
    topology: asked.Topology | None
    """What the client computes, if it joins."""


class Changed(NamedTuple):
    """What became of it."""

    member: Member
    configured: Configured
    statuses: list[Status]
    """What the member should know."""


def carry_out(
    shard: GroupShard, group: StreamsGroup, change: Change, at: Moment, out: Effects
) -> Changed | Refusal:
    """Write down what changes, and answer what becomes of the member in the end."""
    new = change.new
    statuses: list[Status] = []
    bumps = new != change.old
    if bumps:
        write_member(out, group.group_id, new)
    topology = _topology(group, change.topology, out)
    if isinstance(topology, Refusal):
        return topology
    if group.topology is not None and new.topology_epoch < group.topology.epoch:
        what = f"The group runs epoch {group.topology.epoch} of the topology, and the member "
        statuses.append(status(StatusCode.STALE_TOPOLOGY, f"{what}has epoch {new.topology_epoch}."))
    topics = _look_at_topics(shard, group, topology)
    if isinstance(topics, Refusal):
        return topics
    configured, metadata_hash = topics
    unknown = _unknown_task(configured, change.owned)
    if unknown is not None:
        return unknown
    validated = topology.epoch if configured.is_ready else NOT_VALIDATED
    configs = assignment_configs(shard.streams.pace(group.group_id).standbys)
    epoch = group.epoch
    if (
        bumps
        or metadata_hash != group.metadata_hash
        or validated != group.validated_epoch
        or configs != group.configs
    ):
        epoch += 1
        write_epoch(out, group.group_id, epoch, metadata_hash, validated, configs)
    group.checked_at_epoch = epoch
    if group.is_empty:
        begin_delay(shard, group, at, out)
    goal = next_target(shard, group, epoch, configured, new, at, out, statuses)
    moved = reconcile(group, new, goal, change.owned)
    if moved is None:
        return Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The member is in a state that this coordinator does not know. It must abandon all "
            "its tasks and rejoin.",
        )
    _note_move(group, new, moved, at, out)
    return Changed(moved, configured, statuses)


def _topology(group: StreamsGroup, told: asked.Topology | None, out: Effects) -> Topology | Refusal:
    """The group's topology, which its first member brings. It cannot be changed yet, as in Kafka.

    Who comes with an older one than the group's is told so, and gets no other answer.
    """
    if told is None:
        if group.topology is None:
            return Refusal(ErrorCode.INVALID_REQUEST, "The group has no topology: rejoin with one.")
        return group.topology
    topology = topology_of(told)
    if group.topology is None:
        write_topology(out, group.group_id, topology)
        return topology
    if topology.epoch < group.topology.epoch or topology == group.topology:
        return group.topology
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        "The group runs another topology, and cannot change it while it exists.",
    )


def _look_at_topics(
    shard: GroupShard, group: StreamsGroup, topology: Topology
) -> tuple[Configured, int] | Refusal:
    """What the topics allow, and their hash; looked at only if they may have changed."""
    known = group.configured
    if known is not None and not group.must_check_topics:
        return known, group.metadata_hash
    image = shard.streams.image
    metadata_hash = group_hash(topology.required, image, shard.consumers.hashes)
    if known is not None and metadata_hash == group.metadata_hash:
        return known, metadata_hash
    configured = configure(topology, image.topics)
    if not isinstance(configured, Refusal):
        group.configured = configured
        return configured, metadata_hash
    return configured


def _unknown_task(configured: Configured, owned: Assignment | None) -> Refusal | None:
    if owned is None or not configured.is_ready:
        return None
    for tasks in owned:
        for subtopology, number in each_task(tasks):
            work = configured.work.get(subtopology)
            if work is None or not 0 <= number < work.tasks:
                what = f"There is no task {number} of subtopology {subtopology}."
                return Refusal(ErrorCode.INVALID_REQUEST, what)
    return None


def _note_move(
    group: StreamsGroup, member: Member, moved: Member, at: Moment, out: Effects
) -> None:
    if moved == member:
        return
    write_current(out, group.group_id, moved)
    if moved.state is State.UNREVOKED_TASKS:
        expect_release(group, moved.member_id, moved.rebalance_timeout_ms, at, out)
    else:
        expect_no_release(group, moved.member_id, out)
