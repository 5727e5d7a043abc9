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
    refused = {_words(each) for each in response.entries if each.error_code}
    done = [
        {
            "of": _words(each),
            "quotas": {op.key: None if op.remove else op.value for op in each.ops},
        }
        for each in request.entries
        if _words(each) not in refused
    ]
    if done and not request.validate_only:
        details: dict[str, Any] = {"entities": done}
        audit.changed(call, "alter client quotas", details)
    return response


def _words(entry: Any) -> tuple[str, ...]:
    return tuple(f"{part.entity_type} {part.entity_name or '<default>'}" for part in entry.entity)
