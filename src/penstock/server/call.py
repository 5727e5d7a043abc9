"""The circumstances of one request: who asked, through which listener, in which version."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.net.connection import Connection
from penstock.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from penstock.server.quota_account import Account
    from penstock.server.quotas import Mutations


class Sender(NamedTuple):
    """Who asked a broker that passes the request on."""

    principal: Principal
    host: str


class Call:
    """What a handler knows of a request besides its body."""

    __slots__ = (
        "account",
        "api_key",
        "client_id",
        "connection",
        "correlation_id",
        "mutations",
        "sender",
        "version",
    )

    def __init__(
        self,
        connection: Connection,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        sender: Sender | None = None,
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.sender = sender
        """For whom a broker passed it on, if one did."""
        self.account: Account | None = None
        """What it uses, on a node with quotas."""
        self.mutations: Mutations | None = None
        """How much metadata it may change; None for as much as it wants."""

    @property
    def enveloped(self) -> bool:
        """Whether a broker passed it on, for a client of its own."""
        return self.sender is not None

    @property
    def principal(self) -> Principal:
        """Who asks."""
        if self.sender is not None:
            return self.sender.principal
        gate = self.connection.gate
        return ANONYMOUS if gate is None else gate.principal

    @property
    def listener_name(self) -> str:
        """The listener that the request came through; answers name addresses of the same one."""
        return self.connection.listener_name

    @property
    def host(self) -> str:
        """The client's address."""
        return self.connection.peer[0] if self.sender is None else self.sender.host
