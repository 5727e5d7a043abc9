"""What a node knows of who is at the other end of a connection, and whether to let them pass.

A connection without a gate is open: its listener asks for no proof, and no authorizer is set. All
others have one, made when the connection comes in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.net.connection import Connection
    from penstock.security.authorizer import Authorizer
    from penstock.server.broker import Broker
    from penstock.server.call import Call


GROUPS_MAX = 64
"""Groups whose rights one connection remembers: nobody else bounds how many are named."""


class Login(Protocol):
    """A SASL exchange of one connection: to be begun, under way, or done and to be repeated."""

    raw: bool
    """Whether the next frame is a bare token: of old clients, whose handshake was version 0."""

    async def handshake(self, broker: Broker, call: Call, request: Any) -> Any:
        """SaslHandshake: choose a mechanism."""

    async def authenticate(self, broker: Broker, call: Call, request: Any) -> Any:
        """SaslAuthenticate: one step. At the end of the last it calls `Gate.let_in`."""

    async def token(self, broker: Broker, connection: Connection, message: bytes) -> bytearray:
        """One step in a frame of its own; gives the frame that answers it."""


class Entrance(Protocol):
    """What a listener asks of those who come in."""

    def gate(self, connection: Connection) -> Gate | None:
        """The gate of a new connection; None if there is nothing to ask and nothing to check."""


class Gate:
    """One connection's proof and rights."""

    __slots__ = (
        "_authorizer",
        "_groups",
        "_host",
        "expires_at",
        "login",
        "on_entry",
        "principal",
        "readable",
        "writable",
    )

    def __init__(
        self,
        host: str,
        authorizer: Authorizer | None,
        principal: Principal = ANONYMOUS,
        login: Login | None = None,
    ) -> None:
        """With a `login`, nobody passes before it is done."""
        self.principal = principal
        self.login = login
        self.expires_at = math.inf if login is None else -math.inf
        """When, by the loop's clock, they have to prove again who they are."""
        self.on_entry: Callable[[], None] | None = None
        """Told when they are in."""
        self._host = host
        self._authorizer = authorizer
        known = set[str] if authorizer is None else authorizer.memory
        self.writable: set[str] = known()
        """Topics of which it is known that they may be written; `may_write` knows of the others."""
        self.readable: set[str] = known()
        self._groups: set[str] = known()

    def let_in(self, principal: Principal, until: float = math.inf) -> None:
        """They are who they say, until the loop's clock shows `until`."""
        if principal != self.principal:
            self._forget()
        self.principal = principal
        self.expires_at = until
        if self.on_entry is not None:
            self.on_entry()

    def passes(self, now: float) -> bool:
        """Whether requests are taken at all."""
        return now < self.expires_at

    @property
    def why_not(self) -> str:
        """Why nothing passes, if it does not."""
        return (
            "before authentication" if self.expires_at == -math.inf else "after its session ended"
        )

    def may_write(self, topic: str) -> bool:
        """Whether a topic, of those that there are, may be written: remembered, for this is asked
        with each batch."""
        return topic in self.writable or self._look(Operation.WRITE, topic, self.writable)

    def may_read(self, topic: str) -> bool:
        """The same of reading it, which is asked with each partition of each fetch."""
        return topic in self.readable or self._look(Operation.READ, topic, self.readable)

    def may_read_group(self, group: str) -> bool:
        """Whether a group may be read, which is asked with each of its heartbeats and commits."""
        if group in self._groups:
            return True
        if len(self._groups) >= GROUPS_MAX:
            self._groups.clear()
        return self._look(Operation.READ, group, self._groups, ResourceType.GROUP)

    def _look(
        self,
        operation: Operation,
        name: str,
        known: set[str],
        kind: ResourceType = ResourceType.TOPIC,
    ) -> bool:
        authorizer = self._authorizer
        allowed = authorizer is None or authorizer.allows(
            self.principal, self._host, operation, kind, name
        )
        if allowed:
            known.add(name)
        return allowed

    def _forget(self) -> None:
        self.readable.clear()
        self.writable.clear()
        self._groups.clear()
