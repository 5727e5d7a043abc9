"""A listening socket, the connections behind it, and their bounds."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from dataclasses import dataclass
from typing import Any

from penstock.net.buffers import BufferPool
from penstock.net.connection import Connection, Service
from penstock.net.handshakes import Handshakes
from penstock.net.tls import Encrypted, ServerTls

log = logging.getLogger("penstock.net")


BACKLOG_MIN = 1024
"""Connections that the kernel keeps until they are accepted. Kafka's 50 are for a thread that does
nothing else; here a burst also waits for requests, and each client too many loses a second."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a listener grants; Kafka's names stand in the reference of configuration."""

    frame_bytes_max: int = 104_857_600
    connections_max: int = 2_147_483_647
    connections_per_address_max: int = 2_147_483_647
    idle_ms_max: int = 600_000
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class Listener:
    """Accepts connections on one address and hands their frames to a service."""

    def __init__(
        self,
        name: str,
        pool: BufferPool,
        limits: Limits,
        tls: ServerTls | None = None,
    ) -> None:
        self.name = name
        self.service: Service
        """Who answers; to be set before `start`."""
        self.pool = pool
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.port = 0
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self._by_address: Counter[str] = Counter()
        self._handshakes = None if tls is None else Handshakes(tls, self.loop, self._connection)
        self._sock: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._stopped = False

    def bind(self, host: str, port: int) -> None:
        """Take the address, before anyone is let in. Port 0 takes a free one; see `port`."""
        self._sock = _bind(host, port, self.limits)
        self.port = self._sock.getsockname()[1]

    async def start(self) -> None:
        """Accept connections on the bound address."""
        assert self._sock is not None, "bind comes first"
        self._server = await self.loop.create_server(
            self._encrypted if self._handshakes is not None else self._connection,
            sock=self._sock,
            backlog=max(self.limits.backlog, BACKLOG_MIN),
        )
        self._plan_sweep()

    def _connection(self) -> Connection:
        return Connection(self)

    def _encrypted(self) -> Encrypted:
        assert self._handshakes is not None
        return Encrypted(self._handshakes)

    async def stop(self, patience_ms: int) -> None:
        """Stop accepting, answer what waits, close; after `patience_ms` close regardless."""
        self._stopped = True
        if self._server is not None:
            self._server.close()
        elif self._sock is not None:
            self._sock.close()
        if self._sweep is not None:
            self._sweep.cancel()
        if self._handshakes is not None:
            self._handshakes.close()
        for connection in list(self.connections):
            connection.drain()
        deadline = self.loop.time() + patience_ms / 1000
        while self.connections and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()

    # -- called by connections --------------------------------------------------------------

    def admit(self, connection: Connection) -> None:
        """Count a new connection, or close it when there are too many."""
        address = connection.peer[0]
        self.connections[connection] = None
        self._by_address[address] += 1
        if self._stopped:
            connection.abort()  # it was accepted just before
        elif len(self.connections) > self.limits.connections_max:
            log.warning("refused %s: max.connections reached on %s", address, self.name)
            connection.abort()
        elif self._by_address[address] > self.limits.connections_per_address_max:
            log.warning("refused %s: max.connections.per.ip reached on %s", address, self.name)
            connection.abort()

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        if connection in self.connections:
            del self.connections[connection]
            address = connection.peer[0]
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def watch_memory(self) -> None:
        """Close the connection that holds most of the receive memory when none is left to lend.

        Making others wait instead could stop everyone: all memory may lie with frames that are
        not finished, and only reading on finishes them.
        """
        pool = self.pool
        if pool.exhausted:
            largest = max(self.connections, key=lambda each: each.held_bytes)
            log.warning(
                "closing %s: receive memory is exhausted, and it holds %d bytes of %d",
                largest.peer[0],
                largest.held_bytes,
                pool.borrowed_bytes,
            )
            largest.abort()

    # -- idle connections -------------------------------------------------------------------

    def _plan_sweep(self) -> None:
        if self.limits.idle_ms_max < 0:
            return  # connections.max.idle.ms=-1: nobody is too quiet
        period = min(max(self.limits.idle_ms_max / 4000, 0.05), 60.0)
        self._sweep = self.loop.call_later(period, self._close_idle)

    def _close_idle(self) -> None:
        oldest = self.loop.time() - self.limits.idle_ms_max / 1000
        for connection in list(self.connections):
            if connection.last_active < oldest and connection.silent:
                connection.abort()
        self._plan_sweep()


def _bind(host: str, port: int, limits: Limits) -> socket.socket:
    family, address = _resolve(host, port)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # An empty host means every address of either family.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(host)))
        if limits.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        if limits.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    if not host:
        if socket.has_dualstack_ipv6():
            return socket.AF_INET6, ("::", port)
        return socket.AF_INET, ("0.0.0.0", port)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # "localhost" often has two addresses: Java binds the IPv4 one, so clients expect it there.
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return family, address
