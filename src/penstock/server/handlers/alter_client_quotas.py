"""AlterClientQuotas, versions 0 and 1: how much users, client ids and addresses may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.server import audit
from penstock.server.forwarding import forward

if TYPE_CHECKING:
    from penstock.protocol.generated.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker, call: Call, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Forward to the controller, which changes each entity whole."""
    response: AlterClientQuotasResponse = await forward(broker, call, request)
    done = [
        {
            "of": [f"{part.entity_type} {part.entity_name or '<default>'}" for part in each.entity],
            "quotas": {op.key: None if op.remove else op.value for op in each.ops},
        }
        for each, told in zip(request.entries, response.entries, strict=True)
        if not told.error_code
    ]
    if done and not request.validate_only:
        details: dict[str, Any] = {"entities": done}
        audit.changed(call, "alter client quotas", details)
    return response
