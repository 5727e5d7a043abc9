"""CreateAcls, versions 1 to 3: say who may, or may not, do what to which resources.

Each entry is made or refused by itself. A node without an authorizer keeps none: entries that
nobody heeds would look like protection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.security.acl_words import in_words
from penstock.server import audit
from penstock.server.forwarding import forward
from penstock.server.refusals import refusal

if TYPE_CHECKING:
    from penstock.protocol.generated.create_acls import CreateAclsRequest, CreateAclsResponse
    from penstock.protocol.message import Message
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(broker: Broker, call: Call, request: CreateAclsRequest) -> Message:
    """Forward to the controller, which writes what does not stand yet."""
    if broker.authorizer is None:
        return refusal(request, ErrorCode.SECURITY_DISABLED, call.version)
    response: CreateAclsResponse = await forward(broker, call, request)
    made = [
        in_words(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each, result in zip(request.creations, response.results, strict=False)
        if not result.error_code
    ]
    if made:
        audit.changed(call, "create ACLs", {"acls": made})
    return response
