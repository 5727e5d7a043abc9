"""The records that make up a streams group, as Kafka 4.3 writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.generated.group_records import (
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMemberValueTaskIds,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.coordination.effects import Effects
    from penstock.coordination.group.streams.member import Member
    from penstock.coordination.group.streams.tasks import Assignment, Since, Tasks
    from penstock.coordination.group.streams.topology import Topology


def write_epoch(
    out: Effects,
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Mapping[str, str],
) -> None:
    """The group's epoch, what its topics looked like then, and how tasks were to be assigned."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=text) for key, text in configs.items()
        ],
    )
    out.record(StreamsGroupMetadataKey(group_id=group_id), value)


def write_topology(out: Effects, group_id: str, topology: Topology) -> None:
    """What the application computes."""
    out.record(StreamsGroupTopologyKey(group_id=group_id), topology.record)


def write_member(out: Effects, group_id: str, member: Member) -> None:
    """What a member said of itself."""
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=member.tags[key]) for key in sorted(member.tags)],
    )
    out.record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def write_target_epoch(out: Effects, group_id: str, epoch: int, timestamp: int) -> None:
    """The epoch that the target was computed for, and when."""
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp
    )
    out.record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def write_target(out: Effects, group_id: str, member_id: str, target: Assignment) -> None:
    """A member's part of the target."""
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_targeted(target.active),
        standby_tasks=_targeted(target.standby),
        warmup_tasks=_targeted(target.warmup),
    )
    key = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    out.record(key, value)


def write_current(out: Effects, group_id: str, member: Member) -> None:
    """What a member has."""
    assigned, revoking = member.assigned, member.revoking
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_since(assigned.active),
        standby_tasks=_held(assigned.standby),
        warmup_tasks=_held(assigned.warmup),
        active_tasks_pending_revocation=_since(revoking.active),
        standby_tasks_pending_revocation=_held(revoking.standby),
        warmup_tasks_pending_revocation=_held(revoking.warmup),
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    out.record(key, value)


def forget_member(out: Effects, group_id: str, member_id: str) -> None:
    """The member is gone."""
    ids = {"group_id": group_id, "member_id": member_id}
    out.record(StreamsGroupCurrentMemberAssignmentKey(**ids), None)
    out.record(StreamsGroupTargetAssignmentMemberKey(**ids), None)
    out.record(StreamsGroupMemberMetadataKey(**ids), None)


def forget_group(out: Effects, group_id: str, member_ids: Iterable[str]) -> None:
    """The group is gone with all that belongs to it."""
    ids = [{"group_id": group_id, "member_id": member_id} for member_id in member_ids]
    for each in ids:
        out.record(StreamsGroupCurrentMemberAssignmentKey(**each), None)
    for each in ids:
        out.record(StreamsGroupTargetAssignmentMemberKey(**each), None)
    out.record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for each in ids:
        out.record(StreamsGroupMemberMetadataKey(**each), None)
    out.record(StreamsGroupMetadataKey(group_id=group_id), None)
    out.record(StreamsGroupTopologyKey(group_id=group_id), None)


def _targeted(tasks: Tasks) -> list[StreamsGroupTargetAssignmentMemberValueTaskIds]:
    return [
        StreamsGroupTargetAssignmentMemberValueTaskIds(
            subtopology_id=it, partitions=sorted(tasks[it])
        )
        for it in sorted(tasks)
    ]


def _held(tasks: Tasks) -> list[StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        StreamsGroupCurrentMemberAssignmentValueTaskIds(
            subtopology_id=it, partitions=sorted(tasks[it])
        )
        for it in sorted(tasks)
    ]


def _since(tasks: Since) -> list[StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        StreamsGroupCurrentMemberAssignmentValueTaskIds(
            subtopology_id=it,
            partitions=sorted(tasks[it]),
            assignment_epochs=[tasks[it][number] for number in sorted(tasks[it])],
        )
        for it in sorted(tasks)
    ]
