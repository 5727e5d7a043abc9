"""StreamsGroupDescribe: what a group looks like from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.group.streams.group import StreamsGroup
from penstock.coordination.group.streams.leaving import group_not_found
from penstock.coordination.group.streams.tasks import NO_ASSIGNMENT
from penstock.protocol.generated.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from penstock.protocol.generated.streams_group_describe import Member as DescribedMember

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.coordination.group.shard import GroupShard
    from penstock.coordination.group.streams import tasks
    from penstock.coordination.group.streams.member import Member
    from penstock.protocol.generated import group_records as records


def describe(shard: GroupShard, group_id: str) -> StreamsGroupDescribeResponse:
    """An answer with the group, or with why there is no such streams group."""
    return StreamsGroupDescribeResponse(groups=[_describe_group(shard, group_id)])


def _describe_group(shard: GroupShard, group_id: str) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        why = group_not_found(group, group_id)
        return DescribedGroup(group_id=group_id, error_code=why.error, error_message=why.message)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_describe_topology(group),
        members=[_describe_member(group, it) for it in group.members.values()],
    )


def _describe_topology(group: StreamsGroup) -> Topology | None:
    """With the partitions that internal topics have, once that is known."""
    if group.topology is None:
        return None
    configured = group.configured
    counts = configured.counts if configured is not None and configured.is_ready else {}
    return Topology(
        epoch=group.topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=it.subtopology_id,
                source_topics=sorted(it.source_topics),
                repartition_sink_topics=sorted(it.repartition_sink_topics),
                state_changelog_topics=_topics(it.state_changelog_topics, counts),
                repartition_source_topics=_topics(it.repartition_source_topics, counts),
            )
            for it in group.topology.subtopologies.values()
        ],
    )


def _topics(
    topics: Iterable[records.StreamsGroupTopologyValueTopicInfo], counts: Mapping[str, int]
) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=it.name,
            partitions=it.partitions or counts.get(it.name, 0),
            replication_factor=it.replication_factor,
            topic_configs=[KeyValue(key=each.key, value=each.value) for each in it.topic_configs],
        )
        for it in sorted(topics, key=lambda it: it.name)
    ]


def _describe_member(group: StreamsGroup, member: Member) -> DescribedMember:
    endpoint = member.endpoint
    return DescribedMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=text) for key, text in member.tags.items()],
        assignment=_assignment(member.assigned.numbers()),
        target_assignment=_assignment(group.target.get(member.member_id, NO_ASSIGNMENT)),
    )


def _assignment(has: tasks.Assignment) -> Assignment:
    return Assignment(
        active_tasks=_ids(has.active),
        standby_tasks=_ids(has.standby),
        warmup_tasks=_ids(has.warmup),
    )


def _ids(some: tasks.Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=it, partitions=sorted(some[it])) for it in sorted(some)]
