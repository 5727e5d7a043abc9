"""RenewDelegationToken, versions 1 and 2: a token is good for longer, within its lifetime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.renew_delegation_token import RenewDelegationTokenResponse
from penstock.server import audit
from penstock.server.forwarding import forward
from penstock.server.token_requests import taken_from, token_shown

if TYPE_CHECKING:
    from penstock.protocol.generated.renew_delegation_token import RenewDelegationTokenRequest
    from penstock.server.broker import Broker
    from penstock.server.call import Call


async def handle(
    broker: Broker, call: Call, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Forward to the controller, which knows the token by its secret."""
    if not taken_from(broker, call):
        return RenewDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
        )
    tokens = broker.image.delegation_tokens.by_id
    response: RenewDelegationTokenResponse = await forward(broker, call, request)
    if not response.error_code:
        shown = token_shown(broker, request.hmac, tokens)
        until = {**shown, "until": response.expiry_timestamp_ms}
        audit.changed(call, "renew delegation token", until)
    return response
