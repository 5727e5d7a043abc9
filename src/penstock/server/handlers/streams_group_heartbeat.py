"""StreamsGroupHeartbeat, version 0: membership in groups of Kafka Streams instances.

Epoch 0 joins, with the application's topology; -1 leaves. It takes a right to read the group, one
to describe each topic that the topology names, and one to create the internal topics that are
missing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.controller.topic_names import METADATA_TOPIC, invalid_name
from penstock.coordination.group.consumer.heartbeat import Client
from penstock.coordination.group.streams.checks import check_heartbeat
from penstock.coordination.group.streams.heartbeat import Result, failed, heartbeat, refused
from penstock.coordination.group.streams.status import StatusCode
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.server import internal_topics
from penstock.server.handlers.join_group import java_address
from penstock.server.rights import may_group
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from penstock.protocol.generated.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
        StreamsGroupHeartbeatResponse,
        Topology,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_FEATURE = "streams.version"
_PROHIBITED = internal_topics.NAMES | {METADATA_TOPIC}


def handle(broker: Broker, call: Call, request: StreamsGroupHeartbeatRequest) -> Any:
    """The member's epoch and, if they are news, its tasks."""
    problem = _check(broker, call, request)
    if problem is not None:
        return problem.response
    refusal = check_heartbeat(request)
    if refusal is not None:
        return refused(refusal).response
    client = Client(call.client_id or "", java_address(call.host))
    refuse: Any = failed  # not with a message alone, as all replies to this step
    result: Any = broker.coordinators.groups.call(
        request.group_id,
        lambda shard, at, out, ticket: heartbeat(shard, at, out, ticket, request, client),
        refuse,
    )
    if asyncio.isfuture(result):
        return _wait(broker, call, result)
    return _finish(broker, call, result)


async def _wait(
    broker: Broker, call: Call, result: asyncio.Future[Result]
) -> StreamsGroupHeartbeatResponse:
    return _finish(broker, call, await result)


def is_enabled(broker: Broker) -> bool:
    """Whether the cluster has agreed on this protocol, and the node lets it in."""
    if broker.image.features.levels.get(_FEATURE, 0) < 1:
        return False
    return "streams" in broker.config.get_list("group.coordinator.rebalance.protocols")


def _check(broker: Broker, call: Call, request: StreamsGroupHeartbeatRequest) -> Result | None:
    if not is_enabled(broker):
        return failed(ErrorCode.UNSUPPORTED_VERSION)
    if not may_group(broker, call, Operation.READ, request.group_id):
        return failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None if request.topology is None else _check_topics(broker, call, request.topology)


def _check_topics(broker: Broker, call: Call, topology: Topology) -> Result | None:
    names = dict.fromkeys(
        name
        for it in topology.subtopologies
        for name in (
            *it.source_topics,
            *it.repartition_sink_topics,
            *(topic.name for topic in it.repartition_source_topics),
            *(topic.name for topic in it.state_changelog_topics),
        )
    )
    prohibited = [name for name in names if name in _PROHIBITED]
    if prohibited:
        what = f"Applications cannot use topics of the cluster itself: {', '.join(prohibited)}."
        return failed(ErrorCode.STREAMS_INVALID_TOPOLOGY, what)
    wrong = next(filter(None, map(invalid_name, names)), None)
    if wrong is not None:
        what = f"A topic of the topology cannot be called so: {wrong}."
        return failed(ErrorCode.STREAMS_INVALID_TOPOLOGY, what)
    if refused_topics(broker, call, Operation.DESCRIBE, names):
        return failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _finish(broker: Broker, call: Call, result: Result) -> StreamsGroupHeartbeatResponse:
    """Have missing topics made, and tell the member if they cannot be."""
    response, missing = result
    if missing:
        patience_ms = 2 * response.heartbeat_interval_ms
        told = broker.coordinators.streams_topics.make(call, missing, patience_ms)
        for status in response.status or ():
            if told and status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail = f"{status.status_detail} {told}"
    return response
