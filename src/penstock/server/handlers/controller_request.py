"""What brokers and controllers ask of the active controller, on its own listener.

BrokerRegistration, BrokerHeartbeat, UnregisterBroker, AllocateProducerIds, AssignReplicasToDirs and
ControllerRegistration: each is decided by the controller's machine, and answered when that is
committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.server.forwarding import forward

_HEARTBEAT = int(ApiKey.BROKER_HEARTBEAT)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(broker: Broker, call: Call, request: Any) -> Awaitable[Any]:
    """The controller's answer, or that another one decides."""
    if call.api_key == _HEARTBEAT:
        return _heartbeat(broker, call, request)
    return forward(broker, call, request)


async def _heartbeat(broker: Broker, call: Call, request: Any) -> Any:
    """A broker that is known lives as long as its connection, and a moment longer."""
    response = await forward(broker, call, request)
    if response.error_code == ErrorCode.NONE:
        broker_id, line, controller = request.broker_id, call.connection, broker.local_controller
        controller.calls_on(broker_id, line)
        line.on_lost = lambda: controller.hung_up(broker_id, line)
    return response
