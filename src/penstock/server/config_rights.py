"""Who may see or alter the configuration of what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.decision import Refusal
from penstock.metadata.configs import GROUP, TOPIC
from penstock.model.errors import ErrorCode
from penstock.model.resources import CLUSTER_NAME, ResourceType
from penstock.server.rights import may

if TYPE_CHECKING:
    from penstock.model.operations import Operation
    from penstock.server.broker import Broker
    from penstock.server.call import Call

_OF_THEIR_OWN = {
    TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}


def forbidden(
    broker: Broker, call: Call, operation: Operation, resource_type: int, name: str
) -> Refusal | None:
    """Why who called may not do `operation` to the configuration of a resource.

    Topics and groups have rights of their own. Brokers, their loggers and client metrics
    subscriptions are the cluster's.
    """
    kind, error = ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if resource_type in _OF_THEIR_OWN:
        kind, error = _OF_THEIR_OWN[resource_type]
    else:
        name = CLUSTER_NAME
    return None if may(broker, call, operation, kind, name) else Refusal(error, error.message)
