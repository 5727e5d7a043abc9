"""UnregisterBroker, version 0: an operator says that a broker will not come back.

The broker's replicas stay assigned to it: move them away first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: UnregisterBrokerRequest
) -> Awaitable[UnregisterBrokerResponse]:
    """Forward to the controller, which forgets the broker."""
    return forward(broker, call, request)
