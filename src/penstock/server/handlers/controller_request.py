"""What brokers and controllers ask of the active controller, on its own listener.

BrokerRegistration, BrokerHeartbeat, UnregisterBroker, AllocateProducerIds, AssignReplicasToDirs and
ControllerRegistration: each is decided by the controller's machine, and answered when that is
committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: Any) -> Awaitable[Any]:
    """The controller's answer, or that another one decides."""
    return forward(broker, call, request)
