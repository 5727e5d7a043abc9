"""DeleteAcls, versions 1 to 3: take entries away, all that a filter means, and name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.security.acl_words import in_words
from penstock.server import audit
from penstock.server.forwarding import forward
from penstock.server.refusals import refusal

if TYPE_CHECKING:
    from penstock.protocol.generated.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from penstock.protocol.message import Message
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(broker: Broker, call: Call, request: DeleteAclsRequest) -> Message:
    """Forward to the controller, which knows them by their ids."""
    if broker.authorizer is None:
        return refusal(request, ErrorCode.SECURITY_DISABLED, call.version)
    response: DeleteAclsResponse = await forward(broker, call, request)
    gone = [
        in_words(
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for result in response.filter_results
        for each in result.matching_acls
    ]
    if gone:
        audit.changed(call, "delete ACLs", {"acls": gone})
    return response
