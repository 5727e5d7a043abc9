"""Logins at a SASL listener: drives the exchanges, and keeps what they may cost in bounds.

A connection's first requests choose a mechanism (SaslHandshake) and go through its exchange
(SaslAuthenticate); later ones may do so again before the session ends (KIP-368). Old clients choose
with version 0 and then send bare tokens in frames.

Who fails waits before he hears it, and then the connection is closed. The wait is counted from the
request: a name that nobody has and a password that is wrong cost the same time.
"""

from __future__ import annotations

import asyncio
import logging
import math
import struct
from typing import TYPE_CHECKING, Any

from penstock.model.errors import ErrorCode
from penstock.net.connection import CloseConnection
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateResponse
from penstock.protocol.generated.sasl_handshake import SaslHandshakeResponse
from penstock.security.accounts import Accounts, Vault
from penstock.security.mechanisms import Accepted, Challenge, Refresh, Refused, Work
from penstock.server import audit
from penstock.server.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from penstock.metadata.image import MetadataImage
    from penstock.metadata.scram import ScramImage
    from penstock.net.connection import Connection
    from penstock.platform.workers import Workers
    from penstock.security.authorizer import Authorizer
    from penstock.security.mechanisms import Exchange, Mechanism, Outcome
    from penstock.server.broker import Broker
    from penstock.server.call import Call

log = logging.getLogger("penstock.server")

WORKING_MAX = 4
"""Logins that stretch passwords or check signatures at once; syncs need the workers too."""

WAITING_MAX = 500
"""Logins that wait for their turn; further ones are closed, for their clients to try again."""

DELAYED_MAX = 2_000
"""Failed logins that wait for their answer; further ones are closed without one."""

NONCE_BYTES = 24
AGAIN_SECONDS_MIN = 1.0
"""Between two proofs of one connection."""

PROOF_SECONDS_MAX = 60.0
"""From handshake to end: a proof goes by the users of when it began, and some may be gone since."""

_LENGTH = struct.Struct(">i")


class Toll:
    """What logins may cost the node, all its listeners together."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_seconds = delay_ms / 1000
        self._turns = asyncio.Semaphore(WORKING_MAX)
        self._waiting = 0
        self._delayed = 0

    async def work(self, workers: Workers, run: Callable[[], Any]) -> Any:
        """Run what takes long in a worker, in turn."""
        if self._waiting >= WAITING_MAX:
            raise CloseConnection("too many logins wait for their turn")
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        # A turn ends with its work: who hangs up meanwhile must not make room for one more.
        done = workers.submit(run)
        done.add_done_callback(lambda _: self._turns.release())
        return await asyncio.shield(done)

    async def delay(self, until: float, now: float) -> None:
        """Let a failed login wait."""
        if self._delayed >= DELAYED_MAX:
            raise CloseConnection("too many failed logins wait for their answers")
        self._delayed += 1
        try:
            await asyncio.sleep(until - now)
        finally:
            self._delayed -= 1


class Desk:
    """What the logins of one listener share."""

    def __init__(
        self,
        mechanisms: Sequence[Mechanism],
        token_secret: str | None,
        toll: Toll,
        reauth_ms: Mapping[str, int],
        refresh: Callable[[Workers, bool], Awaitable[None]] | None = None,
        early: Callable[[MetadataImage], ScramImage | None] = lambda _: None,
    ) -> None:
        """`token_secret` is delegation.token.secret.key, None where no delegation tokens are taken;
        `reauth_ms` says for how long a proof holds by mechanism, 0 for ever; `refresh` asks for
        the keys of those who sign tokens; `early` tells of users while an image of the metadata
        does not."""
        self.mechanisms = {each.name: each for each in mechanisms}
        self.toll = toll
        self.reauth_ms = reauth_ms
        self.refresh = refresh
        self._token_secret = token_secret
        self._early = early
        self._vault: Vault | None = None

    def accounts(self, broker: Broker) -> Accounts:
        """Who may log in, as of now."""
        if self._vault is None:
            self._vault = Vault(self._token_secret, broker.cluster_id)
        image = broker.image
        early = self._early(image)
        return Accounts(
            self._vault, image.scram if early is None else early, image.delegation_tokens
        )


class SaslEntrance:
    """Nobody passes who has not proved who they are."""

    def __init__(self, desk: Desk, authorizer: Authorizer | None) -> None:
        self._desk = desk
        self._authorizer = authorizer

    def gate(self, connection: Connection) -> Gate:
        return Gate(connection.peer[0], self._authorizer, login=Login(self._desk))


class Login:
    """One connection's proofs: the first, and those that renew it."""

    __slots__ = (
        "_began_at",
        "_busy",
        "_desk",
        "_exchange",
        "_mechanism",
        "_proved",
        "_proved_at",
        "raw",
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._exchange: Exchange | None = None
        self._began_at = -math.inf
        self._mechanism = ""
        self._proved: str | None = None
        self._proved_at = -math.inf
        self._busy = False
        self.raw = False
        """Whether the next frame is a bare token."""

    # -- what clients ask -------------------------------------------------------------------------

    async def handshake(self, broker: Broker, call: Call, request: Any) -> SaslHandshakeResponse:
        """SaslHandshake: choose a mechanism."""
        began = broker.loop.time()
        names = list(self._desk.mechanisms)
        again = self._proved is not None
        if again and (call.version == 0 or began - self._proved_at < AGAIN_SECONDS_MIN):
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if self._exchange is not None:
            await self._fail(broker, call.connection, began, Refused("", "a second handshake"))
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        name = request.mechanism
        mechanism = self._desk.mechanisms.get(name)
        if mechanism is None:
            self._mechanism = name
            reason = "a mechanism that this listener does not take"
            await self._fail(broker, call.connection, began, Refused("", reason))
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=error, mechanisms=names)
        if again and name != self._proved:
            self._exchange = _Refusal(f"re-authentication has to use {self._proved} again")
        else:
            nonce = broker.chance.token_bytes(NONCE_BYTES)
            self._exchange = mechanism.begin(self._desk.accounts(broker), nonce)
        self._mechanism, self._began_at = name, began
        self.raw = call.version == 0
        return SaslHandshakeResponse(mechanisms=names)

    async def authenticate(
        self, broker: Broker, call: Call, request: Any
    ) -> SaslAuthenticateResponse:
        """SaslAuthenticate: one step of the exchange."""
        connection = call.connection
        began = broker.loop.time()
        if self._exchange is None:
            if self._proved is None:
                await self._fail(broker, connection, began, Refused("", "no handshake before"))
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="a SaslHandshake has to come first",
            )
        outcome, lifetime_ms = await self._step(broker, connection, bytes(request.auth_bytes))
        if isinstance(outcome, Refused):
            await self._fail(broker, connection, began, outcome)
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=f"authentication failed: {outcome.told or 'wrong credentials'}",
            )
        return SaslAuthenticateResponse(
            error_message=None, auth_bytes=outcome.data, session_lifetime_ms=lifetime_ms
        )

    async def token(self, broker: Broker, connection: Connection, message: bytes) -> bytearray:
        """A bare token in a frame, as clients send it after a handshake in version 0."""
        began = broker.loop.time()
        outcome, _ = await self._step(broker, connection, message)
        if isinstance(outcome, Refused):
            await self._fail(broker, connection, began, outcome)
            raise CloseConnection("authentication failed")
        return bytearray(_LENGTH.pack(len(outcome.data)) + outcome.data)

    # -- what comes of it -------------------------------------------------------------------------

    async def _step(
        self, broker: Broker, connection: Connection, message: bytes
    ) -> tuple[Challenge | Accepted | Refused, int]:
        """What came of a message, and for how many milliseconds it holds (0: for ever)."""
        if self._busy or self._exchange is None:
            raise CloseConnection("a step of a login before the last one was answered")
        if broker.loop.time() > self._began_at + PROOF_SECONDS_MAX:
            return Refused("", "too slow", "too long after the handshake"), 0
        self._busy = True
        try:
            outcome = await self._drive(broker, self._exchange.step(message, broker.clock.now()))
        finally:
            self._busy = False
        if not isinstance(outcome, Accepted):
            return outcome, 0
        principal = connection.gate.principal
        if self._proved is not None and outcome.principal[:2] != principal[:2]:
            return Refused(outcome.principal.name, "another user", _AS_ANOTHER), 0
        return outcome, self._let_in(broker, connection, outcome)

    async def _drive(self, broker: Broker, outcome: Outcome) -> Challenge | Accepted | Refused:
        while True:
            if isinstance(outcome, Work):
                done = await self._desk.toll.work(broker.workers, outcome.run)
                outcome = outcome.then(done)
            elif isinstance(outcome, Refresh):
                if self._desk.refresh is not None:
                    await self._desk.refresh(broker.workers, outcome.missing)
                outcome = outcome.then()
            else:
                return outcome

    def _let_in(self, broker: Broker, connection: Connection, accepted: Accepted) -> int:
        now = broker.loop.time()
        lifetime_ms = self._desk.reauth_ms.get(self._mechanism, 0)
        if accepted.expires is not None:
            left = max(accepted.expires - broker.clock.now(), 1)
            lifetime_ms = min(lifetime_ms, left) if lifetime_ms > 0 else left
        until = now + lifetime_ms / 1000 if lifetime_ms > 0 else math.inf
        connection.gate.let_in(accepted.principal, until)
        self._exchange = None
        self._proved, self._proved_at = self._mechanism, now
        self.raw = False
        audit.logged_in(
            connection.peer[0], connection.listener_name, self._mechanism, accepted.principal
        )
        return max(lifetime_ms, 0)

    async def _fail(
        self, broker: Broker, connection: Connection, began: float, refused: Refused
    ) -> None:
        """Tell those who watch, let the client wait, and close behind the answer."""
        self._exchange = None
        audit.login_failed(
            connection.peer[0],
            connection.listener_name,
            self._mechanism,
            refused.user,
            refused.reason,
        )
        toll = self._desk.toll
        await toll.delay(began + toll.delay_seconds, broker.loop.time())
        connection.drain()


class _Refusal:
    """An exchange that can only fail."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def step(self, message: bytes, now: int) -> Refused:  # noqa: ARG002
        return Refused("", self._reason, self._reason)


_AS_ANOTHER = "re-authentication must not change the user"
