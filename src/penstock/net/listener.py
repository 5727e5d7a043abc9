"""A listening socket, the connections behind it, and their bounds."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from dataclasses import dataclass
from typing import Any

from penstock.net.acceptor import Acceptor
from penstock.net.admission import INT_MAX, Admission
from penstock.net.buffers import BufferPool
from penstock.net.complaints import Complaints
from penstock.net.connection import Connection, Service
from penstock.net.handshakes import Handshakes
from penstock.net.strangers import Strangers
from penstock.net.tls import Encrypted, ServerTls
from penstock.net.turns import Turns

log = logging.getLogger("penstock.net")


BACKLOG_MIN = 1024
"""Connections that the kernel keeps until they are accepted. Kafka's 50 are for a thread that does
nothing else; here a burst also waits for requests, and each client too many loses a second."""

STRANGER_BYTES_MIN = 64 * 1024
"""Received from one stranger: from there on one looks at what all of them hold."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a listener grants; Kafka's names stand in the reference of configuration."""

    frame_bytes_max: int = 104_857_600
    stranger_frame_bytes_max: int = 524_288
    """Before a client has proved who it is, where it has to."""
    connections_max: int = INT_MAX
    per_second_max: float = math.inf
    """New connections."""
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
        admission: Admission | None = None,
    ) -> None:
        """`admission` counts the connections of all listeners of a node."""
        self.name = name
        self.service: Service
        """Who answers; to be set before `start`."""
        self.pool = pool
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        self.port = 0
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self.turns = Turns(self.loop)
        self.complaints = Complaints(log, self.loop, name)
        self.strangers = Strangers(self.loop, self.complaints.refused)
        self.admission = admission or Admission()
        self.admission.open(name, limits.connections_max, limits.per_second_max)
        self._handshakes = None if tls is None else Handshakes(tls, self.loop, self._connection)
        self._sock: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._stopped = False

    def bind(self, host: str, port: int) -> None:
        """Take the address, before anyone is let in. Port 0 takes a free one; see `port`."""
        self._sock = _bind(host, port, self.limits)
        self.port = self._sock.getsockname()[1]

    async def start(self) -> None:
        """Accept connections on the bound address."""
        assert self._sock is not None, "bind comes first"
        self._acceptor = Acceptor(
            self.name,
            self._sock,
            self.admission,
            self._encrypted if self._handshakes is not None else self._connection,
            self.loop,
            self.complaints.refused,
        )
        self._acceptor.start(max(self.limits.backlog, BACKLOG_MIN))
        self.admission.on_overfull.append(self._give_way)
        self._plan_sweep()

    def _connection(self) -> Connection:
        return Connection(self)

    def _encrypted(self) -> Encrypted:
        assert self._handshakes is not None
        return Encrypted(self._handshakes)

    async def stop(self, patience_ms: int) -> None:
        """Stop accepting, answer what waits, close; after `patience_ms` close regardless."""
        self._stopped = True
        if self._acceptor is not None:
            self._acceptor.close()
        elif self._sock is not None:
            self._sock.close()
        self.strangers.close()
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
        admission = self.admission
        # There was room when it was accepted, but hands have to be shaken before it comes in.
        refusal = ""
        if not admission.has_room(self.name):
            refusal = "max.connections reached"
        elif admission.crowded(address):
            refusal = "max.connections.per.ip reached"
        self.connections[connection] = None
        admission.enter(self.name, address)
        if self._stopped:
            connection.abort()  # it was accepted just before
        elif refusal:
            self.complaints.refused(address, refusal)
            connection.abort()
        elif admission.overfull:
            admission.make_room()

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self.strangers.forget(connection)
        if connection in self.connections:
            del self.connections[connection]
            self.admission.leave(self.name, connection.peer[0])

    def watch_memory(self, connection: Connection) -> None:
        """Close the connection that holds most of the receive memory when none is left to lend.

        Making others wait instead could stop everyone: all memory may lie with frames that are
        not finished, and only reading on finishes them. Strangers go first, and have less.
        """
        if self.strangers and connection in self.strangers:
            if connection.held_bytes >= STRANGER_BYTES_MIN and self.strangers.too_greedy:
                self._close_for_memory(self.strangers.greediest())
        elif self.pool.exhausted:
            largest = self.strangers.greediest() if self.strangers else None
            self._close_for_memory(
                largest or max(self.connections, key=lambda each: each.held_bytes)
            )

    def owe(self, connection: Connection, size: int) -> None:
        """A client does not take its reply. Close whoever owes most when all owe too much."""
        debtor = self.pool.unsent.owe(connection, size)
        if debtor is not None:
            self.complaints.tell(
                logging.WARNING,
                "closing a connection: %d bytes of replies wait for clients that do not read them",
                self.pool.unsent.bytes,
            )
            # Not now: this may be the very connection that is being written to.
            self.loop.call_soon(debtor.abort)

    def _close_for_memory(self, largest: Connection | None) -> None:
        if largest is None:
            return
        self.complaints.tell(
            logging.WARNING,
            "closing %s: receive memory is exhausted, and it holds %d bytes of %d",
            largest.peer[0],
            largest.held_bytes,
            self.pool.borrowed_bytes,
        )
        largest.abort()

    def _give_way(self) -> bool:
        """Close the connection that was not used for longest, for a broker to take its place."""
        if self.admission.protects(self.name) or not self.connections:
            return False
        oldest = min(self.connections, key=lambda each: each.last_active)
        self.complaints.refused(oldest.peer[0], "max.connections reached, and a broker came")
        oldest.abort()
        return True

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
