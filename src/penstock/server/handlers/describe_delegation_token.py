"""DescribeDelegationToken, versions 1 to 3: tokens, and what opens doors with them.

Each token is shown to those who own it, asked for it or may renew it, to who may describe it, and
to who may describe the tokens of its owner. From version 3 on it is told who asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.controller.tokens import REQUESTER_FROM
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.protocol.generated.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from penstock.security.tokens import secret_of, token_hmac
from penstock.server.rights import may
from penstock.server.token_requests import taken_from

if TYPE_CHECKING:
    from penstock.metadata.delegation_tokens import DelegationToken
    from penstock.protocol.generated.describe_delegation_token import (
        DescribeDelegationTokenRequest,
    )
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def handle(
    broker: Broker, call: Call, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Answer from the image. No owners at all asks for the tokens of everybody."""
    if not taken_from(broker, call):
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return DescribeDelegationTokenResponse(error_code=error)
    secret = secret_of(broker.config)
    if secret is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token_id, token, token_hmac(secret, token_id), call.version)
            for token_id, token in broker.image.delegation_tokens.by_id.items()
            if owners is None or owners & _concerned(token)
            if _shown_to(broker, call, token_id, token)
        ]
    )


def _concerned(token: DelegationToken) -> frozenset[str]:
    return frozenset((token.owner, token.requester, *token.renewers))


def _shown_to(broker: Broker, call: Call, token_id: str, token: DelegationToken) -> bool:
    if str(call.principal) in _concerned(token):
        return True
    return may(
        broker, call, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id, tells=False
    ) or may(broker, call, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, tells=False)


def _described(
    token_id: str, token: DelegationToken, hmac: bytes, version: int
) -> DescribedDelegationToken:
    owner_kind, _, owner = token.owner.partition(":")
    told = token.requester if version >= REQUESTER_FROM else ""
    requester_kind, _, requester = told.partition(":")
    return DescribedDelegationToken(
        principal_type=owner_kind,
        principal_name=owner,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester,
        issue_timestamp=token.issued,
        expiry_timestamp=token.expires,
        max_timestamp=token.renewable_until,
        token_id=token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in token.renewers)
        ],
    )
