"""ConsumerGroupHeartbeat, versions 0 and 1: membership in groups whose coordinator assigns.

Epoch 0 joins, -1 leaves, -2 leaves for a while. In version 0 the coordinator names members that
have no name; from version 1 on they bring their own, and may subscribe by regular expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.group.consumer.checks import check_heartbeat
from penstock.coordination.group.consumer.heartbeat import Client, heartbeat, refused
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from penstock.server.handlers.join_group import java_address

if TYPE_CHECKING:
    from penstock.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_FEATURE = "group.version"


def handle(broker: Broker, call: Call, request: ConsumerGroupHeartbeatRequest) -> Any:
    """The member's epoch and, if it is news, its assignment."""
    if not is_enabled(broker):
        return _failed(ErrorCode.UNSUPPORTED_VERSION)
    configured: tuple[str, ...] = ()
    if request.server_assignor is not None:
        configured = tuple(broker.config.get_list("group.consumer.assignors"))
    refusal = check_heartbeat(request, call.version, configured)
    if refusal is not None:
        return refused(refusal)
    client = Client(call.client_id or "", java_address(call.host))
    return broker.coordinators.groups.call(
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
