"""Where an application's state can be queried: which instance has which partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.generated.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatResponseEndpoint,
    TopicPartition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.coordination.group.streams.configuring import Work
    from penstock.coordination.group.streams.member import Member
    from penstock.coordination.group.streams.tasks import Tasks
    from penstock.metadata.topics import TopicsImage


def partitions_by_endpoint(
    members: Iterable[Member], work: Mapping[str, Work], topics: TopicsImage
) -> list[EndpointToPartitions]:
    """The partitions of each member that has an endpoint."""
    found = []
    for member in members:
        if member.endpoint is None:
            continue
        tasks = member.assigned.numbers()
        host, port = member.endpoint
        found.append(
            EndpointToPartitions(
                user_endpoint=StreamsGroupHeartbeatResponseEndpoint(host=host, port=port),
                active_partitions=_partitions(tasks.active, work, topics),
                standby_partitions=_partitions(tasks.standby, work, topics),
            )
        )
    return found


def _partitions(
    tasks: Tasks, work: Mapping[str, Work], topics: TopicsImage
) -> list[TopicPartition]:
    """A task stands for one partition of each topic that its subtopology reads, if it has one."""
    found = []
    for subtopology, numbers in tasks.items():
        if subtopology not in work:
            continue
        for name in sorted(work[subtopology].inputs):
            topic = topics.by_name.get(name)
            if topic is not None:
                partitions = [it for it in sorted(numbers) if it in topic.partitions]
                found.append(TopicPartition(topic=name, partitions=partitions))
    return found
