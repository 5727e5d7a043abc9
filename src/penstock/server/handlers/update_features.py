"""UpdateFeatures, versions 0 to 2: raise or lower what the whole cluster has agreed to speak.

All the updates of a request are made or none is. Version 0 allows a downgrade by a flag, later
ones by a type; version 2 leaves out the result of each feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.protocol.generated.update_features import (
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: UpdateFeaturesRequest
) -> Awaitable[UpdateFeaturesResponse]:
    """Forward to the controller, which asks whether every node supports the new levels."""
    return forward(broker, call, request)
