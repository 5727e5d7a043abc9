"""UpdateFeatures, versions 0 to 2: raise or lower what the whole cluster has agreed to speak.

All the updates of a request are made or none is. Version 0 allows a downgrade by a flag, later
ones by a type; version 2 leaves out the result of each feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server import audit
from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from penstock.protocol.generated.update_features import (
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker, call: Call, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Forward to the controller, which asks whether every node supports the new levels."""
    response: UpdateFeaturesResponse = await forward(broker, call, request)
    if not response.error_code and not request.validate_only:
        levels = {each.feature: each.max_version_level for each in request.feature_updates}
        audit.changed(call, "update features", {"levels": levels})
    return response
