"""How a node reaches others. A simulated cluster has another network; the callers are the same."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.net.peer import Door, Peer
from penstock.protocol.message import Message


class Caller(Protocol):
    """A connection to one other node, made when it is needed and again after a loss."""

    async def ask(self, request: Message, seconds_max: float, version: int | None = None) -> Any:
        """The other node's answer, in the newest version that both know, or in the one given.

        PeerLost if there is none in time. Answers come in the order of the requests: whoever asks
        for something that may take long keeps a caller of his own for it.
        """

    def close(self) -> None:
        """Hang up; everybody who waits is told."""


class Network(Protocol):
    """Makes callers."""

    def caller(self, host: str, port: int, client_id: str) -> Caller: ...


class TcpNetwork:
    """The real one."""

    def __init__(self, door: Door | None = None) -> None:
        self._door = door

    def caller(self, host: str, port: int, client_id: str) -> Caller:
        return Peer(host, port, client_id, self._door)
