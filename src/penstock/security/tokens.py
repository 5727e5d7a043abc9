"""Delegation tokens: the secret that goes with an id, and how long it opens doors."""

from __future__ import annotations

import hmac
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.metadata.delegation_tokens import DelegationToken
    from penstock.model.config.node import NodeConfig


SECRETS_MAX = 16_384
"""Secrets that are remembered: more than there may be tokens, since who shows one that does not
exist is compared with them all."""


def secret_of(config: NodeConfig) -> str | None:
    """The key that all nodes share; None if there are no delegation tokens."""
    return config.get_str("delegation.token.secret.key") or None


@lru_cache(maxsize=SECRETS_MAX)
def token_hmac(secret: str, token_id: str) -> bytes:
    """What the holder of a token shows, made from the key that all nodes share. As the password of
    a SCRAM login it is written in base64."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def expired(token: DelegationToken, now: int) -> bool:
    """Whether a token opens nothing any more, at a wall-clock time in milliseconds."""
    return token.renewable_until < now or token.expires < now


def token_of(secret: str, shown: bytes, tokens: Mapping[str, DelegationToken]) -> str | None:
    """The id of the token whose secret somebody shows; None if there is none."""
    for token_id in tokens:
        if hmac.compare_digest(token_hmac(secret, token_id), shown):
            return token_id
    return None
