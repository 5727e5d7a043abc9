"""What is wrong with a StreamsGroupHeartbeat whatever the group looks like.

Kafka 4.3 does not know static members, warm-ups, offsets of tasks and source topics by pattern in
streams groups yet; its clients do not ask for them, and who does is told so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.streams.member import AWAY, JOINING
from penstock.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.protocol.generated.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
        Subtopology,
        Topology,
    )

SUBTOPOLOGIES_MAX = 10_000
"""In one application; large ones have hundreds."""

TAGS_MAX = 100
"""Of one client; Kafka Streams itself allows five."""


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> Refusal | None:
    """Why such a request means nothing, or None."""
    problem = _check_unsupported(request) or _check_texts(request) or _check_epoch(request)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, problem)
    return None if request.topology is None else check_topology(request.topology)


def _check_unsupported(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.instance_id is not None:
        return "Streams groups have no static members yet."
    if request.task_offsets is not None or request.task_end_offsets is not None:
        return "Streams groups take no offsets of tasks yet."
    if request.warmup_tasks:
        return "Streams groups have no warm-up tasks yet."
    topology = request.topology
    if topology is not None and any(it.source_topic_regex for it in topology.subtopologies):
        return "Streams groups take no regular expressions for source topics yet."
    return None


def _check_texts(request: StreamsGroupHeartbeatRequest) -> str | None:
    if not request.member_id.strip():
        return "MemberId can't be empty."
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.client_tags is not None and len(request.client_tags) > TAGS_MAX:
        return f"There can be at most {TAGS_MAX} client tags."
    return None


def _check_epoch(request: StreamsGroupHeartbeatRequest) -> str | None:
    kinds = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOINING:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if any(it is None or it for it in kinds):
            return "A member that joins must say that it has no tasks of any kind."
        if request.topology is None:
            return "Topology must be non-null when (re-)joining."
    elif request.member_epoch == AWAY:
        return "InstanceId can't be null."
    elif request.member_epoch < AWAY:
        return f"MemberEpoch {request.member_epoch} means nothing."
    if any(it is None for it in kinds) and any(it is not None for it in kinds):
        return "A member says of all kinds of tasks which ones it has, or of none."
    if request.member_epoch != JOINING and request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return None


def check_topology(topology: Topology) -> Refusal | None:
    """Why an application cannot look like this, wherever it runs."""
    if topology.epoch < 0:
        problem = f"{topology.epoch} is no epoch of a topology."
        return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH, problem)
    found: str | None = next(_problems(topology), None)
    return None if found is None else Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, found)


def _problems(topology: Topology) -> Iterator[str]:
    if not topology.subtopologies:
        yield "A topology has at least one subtopology."
    if len(topology.subtopologies) > SUBTOPOLOGIES_MAX:
        yield f"A topology has at most {SUBTOPOLOGIES_MAX} subtopologies."
    twice = _twice(it.subtopology_id for it in topology.subtopologies)
    if twice is not None:
        yield f"There are two subtopologies {twice}."
    internal = _twice(
        topic.name
        for it in topology.subtopologies
        for topic in (*it.state_changelog_topics, *it.repartition_source_topics)
    )
    if internal is not None:
        yield f"The internal topic {internal} is described twice."
    for it in topology.subtopologies:
        yield from _subtopology_problems(it)


def _subtopology_problems(it: Subtopology) -> Iterator[str]:
    for topic in it.state_changelog_topics:
        if topic.partitions:
            yield (
                f"Changelog topic {topic.name} has one partition for each task, and cannot be "
                f"told to have {topic.partitions}."
            )
    for topic in (*it.state_changelog_topics, *it.repartition_source_topics):
        if topic.partitions < 0 or topic.replication_factor < -1:
            yield f"Topic {topic.name} has a number of partitions or replicas that cannot be."
    for group in it.copartition_groups:
        if group.source_topic_regex:
            yield "Streams groups take no regular expressions for source topics yet."
        places = ((group.source_topics, it.source_topics),
                  (group.repartition_source_topics, it.repartition_source_topics))  # fmt: skip
        if any(not 0 <= at < len(topics) for some, topics in places for at in some):
            yield f"A co-partition group of subtopology {it.subtopology_id} names no topic of it."


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
