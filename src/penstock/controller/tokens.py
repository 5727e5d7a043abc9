"""Create, Renew and ExpireDelegationToken: short-lived keys that stand for a user.

The log holds who a token stands for and until when. Its secret is made from its id and a key that
all nodes have in their configuration: whoever reads the log cannot log in with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.controller.decision import RECORDS_MAX, Decision
from penstock.metadata.delegation_tokens import DelegationToken
from penstock.metadata.levels import DELEGATION_TOKENS_FROM, METADATA_VERSION
from penstock.model.errors import ErrorCode
from penstock.model.ids import uuid_text
from penstock.protocol.generated.create_delegation_token import CreateDelegationTokenResponse
from penstock.protocol.generated.expire_delegation_token import ExpireDelegationTokenResponse
from penstock.protocol.generated.metadata_records import RemoveDelegationTokenRecord
from penstock.protocol.generated.renew_delegation_token import RenewDelegationTokenResponse
from penstock.security.principal import USER, Principal
from penstock.security.tokens import expired, token_hmac, token_of

if TYPE_CHECKING:
    from penstock.controller.decision import Context, TokenSettings
    from penstock.protocol.generated.create_delegation_token import CreateDelegationTokenRequest
    from penstock.protocol.generated.expire_delegation_token import ExpireDelegationTokenRequest
    from penstock.protocol.generated.renew_delegation_token import RenewDelegationTokenRequest

TOKENS_MAX = 10_000
"""Tokens that there may be at once: whoever shows one is found by trying them all."""

TOKENS_OF_ONE_MAX = 1_000
"""Tokens that one principal may have asked for."""

RENEWERS_MAX = 100
"""Of one token."""

REQUESTER_FROM = 3
"""The version from which answers tell who asked for a token, besides whose it is."""

TIME_MAX = 2**63 - 1


def create_token(context: Context, request: CreateDelegationTokenRequest) -> Decision:
    """CreateDelegationToken: for who asks or, where they were found to have the right, for
    somebody else."""
    requester = context.principal
    owner = owner_of(request, requester)
    response = without_token(owner, requester, context.version)
    settings = _usable(context)
    if isinstance(settings, ErrorCode):
        response.error_code = settings
        return Decision([], response)
    problem = _cannot_create(context, request)
    if problem is not None:
        response.error_code = problem
        return Decision([], response)
    token_id = uuid_text(context.chance.uuid())
    token = _new_token(context, settings, request, owner)
    response.token_id = token_id
    response.hmac = token_hmac(settings.secret, token_id)
    response.issue_timestamp_ms = token.issued
    response.expiry_timestamp_ms = token.expires
    response.max_timestamp_ms = token.renewable_until
    return Decision([token.record(token_id)], response)


def without_token(
    owner: Principal, requester: Principal, version: int
) -> CreateDelegationTokenResponse:
    """The answer to who asks for a token, before they get one, if they do."""
    told = requester if version >= REQUESTER_FROM else Principal("", "")
    return CreateDelegationTokenResponse(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=told.kind,
        token_requester_principal_name=told.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """For whom a token is asked."""
    if not request.owner_principal_name:
        return Principal(requester.name, requester.kind)
    return Principal(request.owner_principal_name, request.owner_principal_type or "")


def _cannot_create(context: Context, request: CreateDelegationTokenRequest) -> ErrorCode | None:
    if any(each.principal_type != USER for each in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    tokens = context.image.delegation_tokens.by_id
    asked_for = str(context.principal)
    if (
        len(request.renewers) > RENEWERS_MAX
        or len(tokens) >= TOKENS_MAX
        or sum(each.requester == asked_for for each in tokens.values()) >= TOKENS_OF_ONE_MAX
    ):
        return ErrorCode.POLICY_VIOLATION
    return None


def _new_token(
    context: Context,
    settings: TokenSettings,
    request: CreateDelegationTokenRequest,
    owner: Principal,
) -> DelegationToken:
    lifetime = settings.lifetime_ms_max
    if request.max_lifetime_ms > 0:
        lifetime = min(lifetime, request.max_lifetime_ms)
    until = _later(context, lifetime)
    return DelegationToken(
        str(owner),
        str(context.principal),
        tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
        context.wall,
        until,
        min(until, _later(context, settings.renewal_ms)),
    )


def _later(context: Context, duration: int) -> int:
    return min(context.wall + duration, TIME_MAX)


# -- renewing and expiring ------------------------------------------------------------------------


def renew_token(context: Context, request: RenewDelegationTokenRequest) -> Decision:
    """RenewDelegationToken: good for longer, but no longer than its lifetime."""
    shown = _shown(context, request.hmac)
    if isinstance(shown, ErrorCode):
        return _not_renewed(shown)
    token_id, token, settings = shown
    if expired(token, context.wall):
        return _not_renewed(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not _may_renew(token, context.principal):
        return _not_renewed(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    period = settings.renewal_ms
    if request.renew_period_ms > 0:
        period = min(period, request.renew_period_ms)
    expires = min(token.renewable_until, _later(context, period))
    record = token._replace(expires=expires).record(token_id)
    return Decision([record], RenewDelegationTokenResponse(expiry_timestamp_ms=expires))


def _not_renewed(error: ErrorCode) -> Decision:
    return Decision([], RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1))


def expire_token(context: Context, request: ExpireDelegationTokenRequest) -> Decision:
    """ExpireDelegationToken: good for so much longer only; below zero, gone at once."""
    shown = _shown(context, request.hmac)
    if isinstance(shown, ErrorCode):
        return _not_expired(shown)
    token_id, token, _ = shown
    if not _may_renew(token, context.principal):
        return _not_expired(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if request.expiry_time_period_ms < 0:
        gone = RemoveDelegationTokenRecord(token_id=token_id)
        return Decision([gone], ExpireDelegationTokenResponse(expiry_timestamp_ms=context.wall))
    if expired(token, context.wall):
        return _not_expired(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    expires = min(token.renewable_until, _later(context, request.expiry_time_period_ms))
    record = token._replace(expires=expires).record(token_id)
    return Decision([record], ExpireDelegationTokenResponse(expiry_timestamp_ms=expires))


def _not_expired(error: ErrorCode) -> Decision:
    return Decision([], ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=-1))


class _Shown(NamedTuple):
    token_id: str
    token: DelegationToken
    settings: TokenSettings


def _shown(context: Context, hmac: bytes) -> _Shown | ErrorCode:
    """The token whose secret is in a request."""
    settings = _usable(context)
    if isinstance(settings, ErrorCode):
        return settings
    tokens = context.image.delegation_tokens.by_id
    token_id = token_of(settings.secret, hmac, tokens)
    if token_id is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    return _Shown(token_id, tokens[token_id], settings)


def _usable(context: Context) -> TokenSettings | ErrorCode:
    """How tokens are made here; an error if they are not."""
    settings = context.settings.tokens
    if settings is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if context.image.features.levels.get(METADATA_VERSION, 0) < DELEGATION_TOKENS_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    return settings


def _may_renew(token: DelegationToken, principal: Principal) -> bool:
    return str(principal) in (token.owner, *token.renewers)


# -- time -----------------------------------------------------------------------------------------


class Swept(NamedTuple):
    """What taking away old tokens came to."""

    gone: int
    unfinished: bool


def sweep_tokens(context: Context) -> Decision | None:
    """Take away what opens nothing any more; None if there is nothing to take."""
    tokens = context.image.delegation_tokens.by_id
    old = [token_id for token_id, token in tokens.items() if expired(token, context.wall)]
    gone = [RemoveDelegationTokenRecord(token_id=token_id) for token_id in old[:RECORDS_MAX]]
    return Decision(gone, Swept(len(gone), len(old) > len(gone))) if gone else None
