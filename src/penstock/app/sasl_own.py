"""This node as a client of others' SASL listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.app.problems import CannotStart
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.generated.sasl_handshake import SaslHandshakeRequest
from penstock.security.mechanisms import OAUTHBEARER, PLAIN
from penstock.security.own_login import (
    NotBelieved,
    PlainCredentials,
    ScramCredentials,
    Slow,
)
from penstock.security.scram_keys import BY_NAME

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig
    from penstock.net.peer import Ask
    from penstock.platform.chance import Chance
    from penstock.platform.workers import Workers
    from penstock.security.jaas import LoginModule
    from penstock.security.own_login import Credentials

HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 1  # the first that tells how long it holds
STEPS_MAX = 10
NONCE_BYTES = 24

SHARE_OF_SESSION = 0.85
"""Of the time for which a proof holds, after which to prove it again."""


class OwnLogin:
    """How this node enters listeners of one name."""

    def __init__(self, credentials: Credentials | None, workers: Workers, chance: Chance) -> None:
        self._credentials = credentials
        self._workers = workers
        self._chance = chance

    async def log_in(self, ask: Ask) -> float | None:
        """Prove who this node is. Seconds after which to do so again, or None.

        Raises NotBelieved, a PermissionError, if either side cannot.
        """
        credentials = self._credentials
        if credentials is None:
            raise NotBelieved("this node has no credentials of its own to log in with")
        name = credentials.mechanism
        chosen = await ask(SaslHandshakeRequest(mechanism=name), HANDSHAKE_VERSION)
        if chosen.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            taken = ", ".join(chosen.mechanisms)
            raise NotBelieved(f"the other side does not take {name}, but {taken or 'nothing'}")
        if chosen.error_code:
            raise NotBelieved(f"the other side asks for no login: {_name(chosen.error_code)}")
        exchange = credentials.begin(self._chance.token_bytes(NONCE_BYTES))
        challenge, lifetime_ms = b"", 0
        for _ in range(STEPS_MAX):
            message = exchange.step(challenge)
            if isinstance(message, Slow):
                message = message.then(await self._workers.submit(message.run))
            if message is None:
                return SHARE_OF_SESSION * lifetime_ms / 1000 if lifetime_ms > 0 else None
            answer = await ask(SaslAuthenticateRequest(auth_bytes=message), AUTHENTICATE_VERSION)
            if answer.error_code:
                reason = answer.error_message or _name(answer.error_code)
                raise NotBelieved(f"the other side does not believe it: {reason}")
            challenge, lifetime_ms = bytes(answer.auth_bytes), answer.session_lifetime_ms
        raise NotBelieved("the other side asks on and on")


def own_credentials(
    config: NodeConfig, listener: str, mechanism: str, module: LoginModule | None
) -> Credentials | None:
    """What this node shows with a mechanism; None if configuration has nothing."""
    if mechanism == OAUTHBEARER:
        from penstock.app.sasl_oauth import own_token

        return own_token(config, listener, module)
    options = {} if module is None else module.options
    user, password = options.get("username"), options.get("password")
    if not user and not password:
        return None
    if not user or not password:
        raise CannotStart(
            f"the JAAS configuration of {mechanism} at listener {listener} has one of username and "
            "password, and needs both"
        )
    if mechanism == PLAIN:
        return PlainCredentials(user, password)
    by_token = options.get("tokenauth", "").lower() == "true"
    return ScramCredentials(BY_NAME[mechanism], user, password, by_token)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
