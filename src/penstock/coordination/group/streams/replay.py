"""How the records of streams groups change a shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.streams.group import StreamsGroup
from penstock.coordination.group.streams.member import LEFT, Endpoint, Member, State
from penstock.coordination.group.streams.tasks import (
    NOTHING,
    Assignment,
    Held,
    Since,
    tasks_of,
)
from penstock.coordination.group.streams.topology import Topology
from penstock.model.invariants import invariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.coordination.group.shard import GroupShard, Replay
    from penstock.protocol.generated import group_records as records

_STATES = {int(state): state for state in State}
_NO_EPOCH = -1


def _group(shard: GroupShard, group_id: str, create: bool) -> StreamsGroup | None:
    """The group that a record is about. A classic one without members gives way."""
    group = shard.groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    if not create:
        return None
    gives_way = isinstance(group, ClassicGroup) and not group.members
    invariant(group is None or gives_way, f"{group_id!r} is a {group and group.kind} group")
    new = shard.groups[group_id] = StreamsGroup(group_id)
    return new


def _replay_epoch(
    shard: GroupShard,
    _offset: int,
    key: records.StreamsGroupMetadataKey,
    value: records.StreamsGroupMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if value is None:
        if group is not None:
            del shard.groups[key.group_id]
            shard.streams.forget(key.group_id)
        return
    assert group is not None
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    group.validated_epoch = value.validated_topology_epoch
    group.configs = {it.key: it.value for it in value.last_assignment_configs or ()}


def _replay_topology(
    shard: GroupShard,
    _offset: int,
    key: records.StreamsGroupTopologyKey,
    value: records.StreamsGroupTopologyValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is not None:
        group.topology = None if value is None else Topology(value)
        group.configured = None


def _replay_member(
    shard: GroupShard,
    _offset: int,
    key: records.StreamsGroupMemberMetadataKey,
    value: records.StreamsGroupMemberMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    if value is None:
        group.remove(key.member_id)
        return
    endpoint = value.user_endpoint
    group.put(
        (group.members.get(key.member_id) or Member(key.member_id))._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            tags={it.key: it.value for it in value.client_tags},
        )
    )


def _replay_target_epoch(
    shard: GroupShard,
    _offset: int,
    key: records.StreamsGroupTargetAssignmentMetadataKey,
    value: records.StreamsGroupTargetAssignmentMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    group.target_epoch = _NO_EPOCH if value is None else value.assignment_epoch
    group.target_at = 0 if value is None else value.assignment_timestamp


def _replay_target(
    shard: GroupShard,
    _offset: int,
    key: records.StreamsGroupTargetAssignmentMemberKey,
    value: records.StreamsGroupTargetAssignmentMemberValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = Assignment(
            tasks_of(value.active_tasks),
            tasks_of(value.standby_tasks),
            tasks_of(value.warmup_tasks),
        )


def _replay_current(
    shard: GroupShard,
    _offset: int,
    key: records.StreamsGroupCurrentMemberAssignmentKey,
    value: records.StreamsGroupCurrentMemberAssignmentValue | None,
    _producer_id: int,
) -> None:
    group = _group(shard, key.group_id, value is not None)
    if group is None:
        return
    old = group.members.get(key.member_id)
    if value is None:
        if old is not None:
            group.put(
                old._replace(epoch=LEFT, previous_epoch=LEFT, assigned=NOTHING, revoking=NOTHING)
            )
        return
    group.put(
        (old or Member(key.member_id))._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, State.UNKNOWN),
            assigned=Held(
                _since(value.active_tasks, value.member_epoch),
                tasks_of(value.standby_tasks),
                tasks_of(value.warmup_tasks),
            ),
            revoking=Held(
                _since(value.active_tasks_pending_revocation, value.member_epoch),
                tasks_of(value.standby_tasks_pending_revocation),
                tasks_of(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _since(
    tasks: Sequence[records.StreamsGroupCurrentMemberAssignmentValueTaskIds], epoch: int
) -> Since:
    """Older versions do not say since when: then since the member's epoch."""
    found: dict[str, dict[int, int]] = {}
    for it in tasks:
        epochs = it.assignment_epochs
        if epochs is None or len(epochs) != len(it.partitions):
            epochs = [max(epoch, 0)] * len(it.partitions)
        if it.partitions:
            found[it.subtopology_id] = dict(zip(it.partitions, epochs, strict=True))
    return found


REPLAY: dict[int, Replay] = {
    17: _replay_epoch,
    19: _replay_member,
    20: _replay_target_epoch,
    21: _replay_target,
    22: _replay_current,
    23: _replay_topology,
}
