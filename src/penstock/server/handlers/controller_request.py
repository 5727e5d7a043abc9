"""What brokers and controllers ask of the active controller, on its own listener.

BrokerRegistration, BrokerHeartbeat, UnregisterBroker, AllocateProducerIds, AssignReplicasToDirs and
ControllerRegistration: each is decided by the controller's machine, and answered when that is
committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.protocol.registry import API
from penstock.raft.driver import NotLeader

if TYPE_CHECKING:
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(broker: Broker, call: Call, request: Any) -> Any:
    """The controller's answer, or that another one decides."""
    try:
        return await broker.controller.handle(call.api_key, request, version=call.version)
    except NotLeader:
        refusal: Any = API[call.api_key].response_class()
        refusal.error_code = ErrorCode.NOT_CONTROLLER
        return refusal
