"""ConsumerGroupHeartbeat, versions 0 and 1: membership in groups whose coordinator assigns.

Epoch 0 joins, -1 leaves, -2 leaves for a while. In version 0 the coordinator names members that
have no name; from version 1 on they bring their own, and may subscribe by regular expression. It
takes a right to read the group, and one to describe each topic that is named; an expression stands
for topics that the member may describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.group.consumer.checks import check_heartbeat
from penstock.coordination.group.consumer.heartbeat import (
    Client,
    answer_if_nothing_new,
    heartbeat,
    refused,
)
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from penstock.server.handlers.join_group import java_address
from penstock.server.rights import may_group
from penstock.server.topic_rights import refused_topics, sight

if TYPE_CHECKING:
    from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_FEATURE = "group.version"


def handle(broker: Broker, call: Call, request: ConsumerGroupHeartbeatRequest) -> Any:
    """The member's epoch and, if it is news, its assignment."""
    if not is_enabled(broker):
        return _failed(ErrorCode.UNSUPPORTED_VERSION)
    if not may_group(broker, call, Operation.READ, request.group_id):
        return _failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = broker.coordinators.groups
    client_id, host = call.client_id or "", java_address(call.host)
    settled = groups.settled_shard(request.group_id)
    if settled is not None:
        now = broker.clock.monotonic()
        known = answer_if_nothing_new(settled, request, client_id, host, now)
        if known is not None:
            return known
    if refused_topics(broker, call, Operation.DESCRIBE, request.subscribed_topic_names or ()):
        return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    configured: tuple[str, ...] = ()
    if request.server_assignor is not None:
        configured = tuple(broker.config.get_list("group.consumer.assignors"))
    refusal = check_heartbeat(request, call.version, configured)
    if refusal is not None:
        return refused(refusal)
    client = Client(client_id, host, sight(broker, call))
    return groups.call(
        request.group_id,
        lambda shard, at, out, ticket: heartbeat(shard, at, out, ticket, request, client),
        _failed,
    )


def is_enabled(broker: Broker) -> bool:
    """Whether the cluster has agreed on this protocol, and the node lets it in."""
    if broker.image.features.levels.get(_FEATURE, 0) < 1:
        return False
    return "consumer" in broker.config.get_list("group.coordinator.rebalance.protocols")


def _failed(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)
