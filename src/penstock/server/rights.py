"""What handlers ask before they act: may this call do that?

A refusal is written to the audit log, unless `tells` is false: then nothing was asked for by name,
and the answer only decides how much of a list is shown, or which of several rights will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.resources import CLUSTER_NAME, ResourceType
from penstock.net.connection import CloseConnection
from penstock.server import audit

if TYPE_CHECKING:
    from penstock.model.operations import Operation
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def may(
    broker: Broker,
    call: Call,
    operation: Operation,
    kind: ResourceType,
    name: str,
    *,
    tells: bool = True,
) -> bool:
    """Whether who called may do `operation` to a resource. Everything goes on an open node."""
    authorizer = broker.authorizer
    if authorizer is None or authorizer.allows(call.principal, call.host, operation, kind, name):
        return True
    if not authorizer.ready:
        # It may be allowed, for all we know yet: they shall come again, and not give up.
        raise CloseConnection("the access control entries have not been read yet")
    if tells:
        audit.denied(call, operation, kind, name)
    return False


def may_topic(
    broker: Broker, call: Call, operation: Operation, topic: str, *, tells: bool = True
) -> bool:
    return may(broker, call, operation, ResourceType.TOPIC, topic, tells=tells)


def may_group(
    broker: Broker, call: Call, operation: Operation, group: str, *, tells: bool = True
) -> bool:
    return may(broker, call, operation, ResourceType.GROUP, group, tells=tells)


def may_transact(
    broker: Broker, call: Call, operation: Operation, transactional_id: str, *, tells: bool = True
) -> bool:
    return may(
        broker, call, operation, ResourceType.TRANSACTIONAL_ID, transactional_id, tells=tells
    )


def may_cluster(broker: Broker, call: Call, operation: Operation, *, tells: bool = True) -> bool:
    return may(broker, call, operation, ResourceType.CLUSTER, CLUSTER_NAME, tells=tells)


def may_some(broker: Broker, call: Call, operation: Operation, kind: ResourceType) -> bool:
    """Whether who called may do `operation` to at least one resource of a kind, there or not."""
    authorizer = broker.authorizer
    return authorizer is None or authorizer.allows_some(call.principal, call.host, operation, kind)


def rights_bits(broker: Broker, call: Call, kind: ResourceType, name: str, operations: int) -> int:
    """Those of `operations`, a bit field as answers carry them, that who called may do."""
    if broker.authorizer is None:
        return operations
    return operations & broker.authorizer.allowed(call.principal, call.host, kind, name)
