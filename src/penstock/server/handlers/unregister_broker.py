"""UnregisterBroker, version 0: an operator says that a broker will not come back.

The broker's replicas stay assigned to it: move them away first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server import audit
from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from penstock.protocol.generated.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker, call: Call, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Forward to the controller, which forgets the broker."""
    response: UnregisterBrokerResponse = await forward(broker, call, request)
    if not response.error_code:
        audit.changed(call, "unregister broker", {"broker": request.broker_id})
    return response
