"""What handlers ask before they act: may this call do that?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.resources import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from penstock.model.operations import Operation
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def may(broker: Broker, call: Call, operation: Operation, kind: ResourceType, name: str) -> bool:
    """Whether who called may do `operation` to a resource. Everything goes on an open node."""
    authorizer = broker.authorizer
    return authorizer is None or authorizer.allows(call.principal, call.host, operation, kind, name)


def may_topic(broker: Broker, call: Call, operation: Operation, topic: str) -> bool:
    return may(broker, call, operation, ResourceType.TOPIC, topic)


def may_group(broker: Broker, call: Call, operation: Operation, group: str) -> bool:
    return may(broker, call, operation, ResourceType.GROUP, group)


def may_transact(broker: Broker, call: Call, operation: Operation, transactional_id: str) -> bool:
    return may(broker, call, operation, ResourceType.TRANSACTIONAL_ID, transactional_id)


def may_cluster(broker: Broker, call: Call, operation: Operation) -> bool:
    return may(broker, call, operation, ResourceType.CLUSTER, CLUSTER_NAME)
