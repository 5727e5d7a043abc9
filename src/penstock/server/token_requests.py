"""Who may speak about delegation tokens at all, and with which key they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.security.principal import ANONYMOUS
from penstock.security.tokens import secret_of, token_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.metadata.delegation_tokens import DelegationToken
    from penstock.server.broker import Broker
    from penstock.server.call import Call


def token_shown(
    broker: Broker, hmac: bytes, tokens: Mapping[str, DelegationToken]
) -> dict[str, str | None]:
    """Which token somebody showed, in the words of the audit log: never with what they showed."""
    secret = secret_of(broker.config)
    if secret is None:
        return {}  # this node has no key, while the one that decided has
    token_id = token_of(secret, hmac, tokens)
    return {"token_id": token_id, "owner": None if token_id is None else tokens[token_id].owner}


def taken_from(broker: Broker, call: Call) -> bool:
    """Whether requests about tokens are taken from who calls, whatever their rights are.

    A token begets no token, or a stolen one would live for ever. And who did not say who they are
    is nobody whom a token could stand for. What a broker passes on, that broker has looked at.
    """
    if call.principal.by_token:
        return False
    if call.enveloped:
        return True
    protocol = broker.config.security_protocols.get(call.listener_name, "PLAINTEXT")
    if protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or call.principal != ANONYMOUS
