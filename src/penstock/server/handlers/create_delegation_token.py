"""CreateDelegationToken, versions 1 to 3: a short-lived key that stands for a user.

Who was let in by a password or a certificate may have one for themselves, and with the right to it
for others. Who came with a token gets none. From version 3 on a request may name another owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.tokens import owner_of, without_token
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.server import audit
from penstock.server.forwarding import forward
from penstock.server.rights import may
from penstock.server.token_requests import taken_from

if TYPE_CHECKING:
    from penstock.protocol.generated.create_delegation_token import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )
    from penstock.security.principal import Principal
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker, call: Call, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Forward to the controller, unless who asks may not."""
    owner = owner_of(request, call.principal)
    if not taken_from(broker, call):
        return _refused(call, owner, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if str(owner) != str(call.principal) and not may(
        broker, call, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        return _refused(call, owner, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    response: CreateDelegationTokenResponse = await forward(broker, call, request)
    if not response.error_code:
        made = {
            "token_id": response.token_id,
            "owner": str(owner),
            "renewers": [
                f"{each.principal_type}:{each.principal_name}" for each in request.renewers
            ],
            "until": response.max_timestamp_ms,
        }
        audit.changed(call, "create delegation token", made)
    return response


def _refused(call: Call, owner: Principal, error: ErrorCode) -> CreateDelegationTokenResponse:
    response = without_token(owner, call.principal, call.version)
    response.error_code = error
    return response
