"""Delegation tokens, through `wire`. What opens doors, the HMAC, is shown once: when it is made."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from penstock.cli.failure import USAGE, Failure
from penstock.cli.output import Table
from penstock.cli.wire_cluster import Cluster, check
from penstock.protocol.generated import create_delegation_token as creating
from penstock.protocol.generated import describe_delegation_token as describing
from penstock.protocol.generated import expire_delegation_token as expiring
from penstock.protocol.generated import renew_delegation_token as renewing

CLUSTERS_CHOICE = -1
"""As a lifetime: as long as the cluster's configuration says."""


class Token(NamedTuple):
    """A token as the cluster describes it."""

    id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    issued_ms: int
    expires_ms: int
    ends_ms: int
    """After which nobody can renew it any more."""
    hmac: bytes = b""

    def __repr__(self) -> str:
        return f"Token({self.id})"


def principal_parts(text: str, option: str) -> tuple[str, str]:
    """Kind and name of a principal; a name alone is a user's."""
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = "User", text
    if not (kind and name):
        raise Failure(f"{option} {text!r} names nobody", "write alice or User:alice", USAGE)
    return kind, name


def create(cluster: Cluster, owner: str | None, renewers: Sequence[str], life_ms: int) -> Token:
    """A new token, with its HMAC."""
    kind, name = (None, None) if owner is None else principal_parts(owner, "--owner")
    may_renew = [
        creating.CreatableRenewers(principal_type=kind, principal_name=name)
        for kind, name in (principal_parts(each, "--renewer") for each in renewers)
    ]
    request = creating.CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=may_renew,
        max_lifetime_ms=life_ms,
    )
    told = cluster.anyone.ask(request, creating.CreateDelegationTokenResponse)
    check(told.error_code, "no token was created")
    made = f"{told.principal_type}:{told.principal_name}"
    asked = f"{told.token_requester_principal_type}:{told.token_requester_principal_name}"
    return Token(
        told.token_id,
        made,
        made if asked == ":" else asked,
        [f"{each.principal_type}:{each.principal_name}" for each in may_renew],
        told.issue_timestamp_ms,
        told.expiry_timestamp_ms,
        told.max_timestamp_ms,
        bytes(told.hmac),
    )


def found(cluster: Cluster, owners: Sequence[str] | None) -> list[Token]:
    """The tokens that one may see; those of some owners, or all."""
    wanted = None
    if owners is not None:
        wanted = [
            describing.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in (principal_parts(each, "--owner") for each in owners)
        ]
    request = describing.DescribeDelegationTokenRequest(owners=wanted)
    told = cluster.anyone.ask(request, describing.DescribeDelegationTokenResponse)
    check(told.error_code, "tokens cannot be listed")
    tokens = [
        Token(
            one.token_id,
            f"{one.principal_type}:{one.principal_name}",
            f"{one.token_requester_principal_type}:{one.token_requester_principal_name}",
            [f"{each.principal_type}:{each.principal_name}" for each in one.renewers],
            one.issue_timestamp,
            one.expiry_timestamp,
            one.max_timestamp,
            bytes(one.hmac),
        )
        for one in told.tokens
    ]
    return sorted(tokens, key=lambda token: (token.owner, token.issued_ms, token.id))


def hmac_of(cluster: Cluster, word: str) -> bytes:
    """The HMAC that a token's id stands for, or that somebody wrote out in base64."""
    for token in found(cluster, None):
        if token.id == word:
            return token.hmac
    try:
        hmac = base64.b64decode(word, validate=True)
    except ValueError:
        hmac = b""
    if len(hmac) != 64:
        raise Failure("there is no such token that you may see", "`penstock token list` shows them")
    return hmac


def renew(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    """Let a token live on; when it will expire."""
    request = renewing.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    told = cluster.anyone.ask(request, renewing.RenewDelegationTokenResponse)
    check(told.error_code, "the token was not renewed")
    return told.expiry_timestamp_ms


def expire(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    """Let a token end, at once if the period is below zero; when it will have."""
    request = expiring.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    told = cluster.anyone.ask(request, expiring.ExpireDelegationTokenResponse)
    check(told.error_code, "the token was not expired")
    return told.expiry_timestamp_ms


def time_text(at_ms: int) -> str:
    """A moment, to the second and in UTC."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat().replace("+00:00", "Z")


def document(token: Token) -> dict[str, Any]:
    """A token for programs, without what opens doors."""
    return {
        "id": token.id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": time_text(token.issued_ms),
        "expires": time_text(token.expires_ms),
        "renewable_until": time_text(token.ends_ms),
    }


def table(tokens: Sequence[Token]) -> Table:
    headings = ("id", "owner", "requester", "renewers", "issued", "expires", "renewable until")
    return Table(headings, [list(document(each).values()) for each in tokens])
