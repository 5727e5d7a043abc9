"""ShareGroupHeartbeat, version 1: membership in groups that share partitions.

Epoch 0 joins, -1 leaves; members bring their own ids. It takes a right to read the group, and one
to describe each topic that is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordination.group.consumer.heartbeat import Client
from penstock.coordination.group.share.checks import check_heartbeat
from penstock.coordination.group.share.heartbeat import heartbeat, refused
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatResponse
from penstock.server.handlers.join_group import java_address
from penstock.server.rights import may_group
from penstock.server.topic_rights import refused_topics

if TYPE_CHECKING:
    from penstock.protocol.generated.share_group_heartbeat import ShareGroupHeartbeatRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_FEATURE = "share.version"


def handle(broker: Broker, call: Call, request: ShareGroupHeartbeatRequest) -> Any:
    """The member's epoch and, if it is news, its assignment."""
    if not is_enabled(broker):
        return _failed(ErrorCode.UNSUPPORTED_VERSION)
    if not may_group(broker, call, Operation.READ, request.group_id):
        return _failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if refused_topics(broker, call, Operation.DESCRIBE, request.subscribed_topic_names or ()):
        return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    refusal = check_heartbeat(request)
    if refusal is not None:
        return refused(refusal)
    client = Client(call.client_id or "", java_address(call.host))
    return broker.coordinators.groups.call(
        request.group_id,
        lambda shard, at, out, ticket: heartbeat(shard, at, out, ticket, request, client),
        _failed,
    )


def is_enabled(broker: Broker) -> bool:
    """Whether the cluster has agreed on share groups."""
    return broker.image.features.levels.get(_FEATURE, 0) >= 1


def _failed(error: ErrorCode) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error)
