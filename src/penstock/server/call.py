"""The circumstances of one request: who asked, through which listener, in which version."""

from __future__ import annotations

from penstock.net.connection import Connection


class Call:
    """What a handler knows of a request besides its body."""

    __slots__ = ("api_key", "client_id", "connection", "correlation_id", "enveloped", "version")

    def __init__(
        self,
        connection: Connection,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        enveloped: bool = False,
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.enveloped = enveloped
        """Whether a broker passed it on, for a client of its own."""

    @property
    def listener_name(self) -> str:
        """The listener that the request came through; answers name addresses of the same one."""
        return self.connection.listener_name

    @property
    def host(self) -> str:
        """The client's address."""
        return self.connection.peer[0]
