"""Wires between nodes and clients that a test can cut, slow down and tear.

    with Proxy(who) as proxy:
        port = proxy.forward("node-1", "127.0.0.1", 9092)  # connect here instead
        proxy.set("client", "node-1", CUT)                 # silence, in both directions
        proxy.set("client", "node-1", CLEAR)               # what was held arrives now

A cut holds bytes and drops none, as TCP does: a sender whose peer is unreachable keeps its bytes
and sends them again, so that a request may arrive long after everybody has given it up. Ends are
held as well: who closes a connection that is cut tells nobody. Only the very beginning differs from
a cable that is pulled: a new connection to the proxy succeeds, and then nothing is heard.

One port serves everybody who wants to reach a destination; who a caller is, the operating system
tells: `owner_of` finds the process that holds the other end. Nodes therefore need no settings of
their own, and a node is cut from one peer and not from the next. No privileges are needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

CHUNK = 65_536
START_SECONDS_MAX = 10.0
_LINGER_NONE = struct.pack("ii", 1, 0)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What becomes of bytes between a source and a destination."""

    hold_there: bool = False
    """Whether what the source says is held."""
    hold_back: bool = False
    """Whether what the destination answers is held."""
    delay_seconds: float = 0.0
    """How long everything takes, in either direction."""
    bytes_per_second: float = 0.0
    """How much passes in either direction; 0: as much as there is."""
    refuse: bool = False
    """Whether new connections are reset."""


CLEAR = Conditions()
CUT = Conditions(hold_there=True, hold_back=True)
DEAF = Conditions(hold_there=True)
"""The source can be heard by nobody, and would hear what is said."""
MUTE = Conditions(hold_back=True)
"""The destination hears everything, and its answers are lost."""


class Proxy:
    """Ports that forward to others, in a thread of their own.

    `who` tells the name of a caller from its port and the port that it called; None means
    "client".
    """

    def __init__(self, who: Callable[[int, int], str | None] = lambda _, __: None) -> None:
        self._who = who
        self._roads: dict[tuple[str, str], _Road] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def forward(self, destination: str, host: str, port: int) -> int:
        """Open a port that leads to `host:port`; several ports may lead to one destination."""
        return self._call(self._forward(destination, host, port))

    def set(self, source: str, destination: str, conditions: Conditions) -> None:
        """Let these conditions hold from now on, for old and new connections alike."""
        self._do(lambda: self._road(source, destination).set(conditions))

    def reset(self, source: str, destination: str) -> None:
        """Reset every connection that there is."""
        self._do(lambda: self._road(source, destination).reset())

    def clear(self) -> None:
        """Let everything pass everywhere."""
        self._do(self._clear)

    def connections(self, source: str, destination: str) -> int:
        """How many there are."""
        return self._do(lambda: len(self._road(source, destination).pairs))

    def close(self) -> None:
        """Reset everything, and end."""
        if not self._thread.is_alive():
            return
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- in the thread of the loop -------------------------------------------------------------

    def _road(self, source: str, destination: str) -> _Road:
        key = source, destination
        if key not in self._roads:
            self._roads[key] = _Road()
        return self._roads[key]

    def _clear(self) -> None:
        for road in self._roads.values():
            road.set(CLEAR)

    async def _forward(self, destination: str, host: str, port: int) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                own: int = writer.get_extra_info("sockname")[1]
                peer: int = writer.get_extra_info("peername")[1]
                source = self._who(peer, own) or "client"
                await self._road(source, destination).carry(_End(reader, writer), host, port)
            except asyncio.CancelledError:
                return  # closed with the proxy; asyncio would print it as somebody's mistake
            finally:
                self._tasks.discard(task)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        opened: int = server.sockets[0].getsockname()[1]
        return opened

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS_MAX)

    def _do(self, work: Callable[[], _T]) -> _T:
        done: Future[_T] = Future()

        def act() -> None:
            done.set_result(work())

        self._loop.call_soon_threadsafe(act)
        return done.result(START_SECONDS_MAX)


class _End:
    """One of the two connections of a pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer


class _Road:
    """All connections from one source to one destination, and what they are under."""

    def __init__(self) -> None:
        self.pairs: list[tuple[_End, _End]] = []
        self.conditions = CLEAR
        self._there = asyncio.Event()
        self._back = asyncio.Event()
        self.set(CLEAR)

    def set(self, conditions: Conditions) -> None:
        self.conditions = conditions
        for gate, held in (
            (self._there, conditions.hold_there),
            (self._back, conditions.hold_back),
        ):
            gate.clear() if held else gate.set()

    def reset(self) -> None:
        for pair in self.pairs:
            for end in pair:
                _abort(end.writer)

    async def carry(self, near: _End, host: str, port: int) -> None:
        """Connect a caller with its destination until either of them ends."""
        try:
            if self.conditions.refuse:
                return
            await self._there.wait()
            far = _End(*await asyncio.open_connection(host, port))
        except OSError:
            return  # nobody is there: the caller's connection is reset
        else:
            await self._connect(near, far)
        finally:
            _abort(near.writer)

    async def _connect(self, near: _End, far: _End) -> None:
        pair = near, far
        self.pairs.append(pair)
        pumps = [
            asyncio.ensure_future(self._pump(near.reader, far.writer, self._there)),
            asyncio.ensure_future(self._pump(far.reader, near.writer, self._back)),
        ]
        try:
            # A half-closed connection may still carry answers, but one end that is gone is enough.
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.pairs.remove(pair)
            _abort(far.writer)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        try:
            while data := await reader.read(CHUNK):
                conditions = self.conditions
                if conditions.delay_seconds:
                    await asyncio.sleep(conditions.delay_seconds)
                if conditions.bytes_per_second:
                    await asyncio.sleep(len(data) / conditions.bytes_per_second)
                await gate.wait()
                writer.write(data)
                await writer.drain()
            await gate.wait()  # that a connection ended is news that a cut holds, too
            writer.close()  # in order: what was said before the end arrives
        except OSError:
            await gate.wait()  # a broken connection breaks the other, too, once it is heard of


def _turn(gate: asyncio.Event, *, held: bool) -> None:
    if held:
        gate.clear()
    else:
        gate.set()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Reset rather than close: a process that dies leaves resets behind, too."""
    held = writer.get_extra_info("socket")
    if held is None or writer.is_closing():
        return
    with contextlib.suppress(OSError):
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    writer.transport.abort()


def owner_of(port: int, to: int, pids: dict[str, int]) -> str | None:
    """Which of these processes holds a loopback connection from `port` to port `to`."""
    inode = _inode(port, to)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    for name, pid in pids.items():
        with contextlib.suppress(OSError):  # it may end at any moment
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(entry.path) == wanted:
                        return name
    return None


def _inode(port: int, to: int) -> str | None:
    """The inode of the socket that holds a connection from `port` to port `to`.

    The kernel is asked for this one: its list of all, in /proc, takes so long to read where another
    process has ten thousand that the wires would stand still with each new connection.
    """
    loopback = socket.inet_aton("127.0.0.1") + bytes(12)
    one = _SOCKET.pack(port, to, loopback, loopback, 0, _NO_COOKIE)
    body = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, _EVERY_STATE) + one
    head = _HEAD.pack(_HEAD.size + len(body), _BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel:
        kernel.settimeout(START_SECONDS_MAX)
        kernel.send(head + body)
        answer = kernel.recv(CHUNK)
    if _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return None  # an error: there is none
    return str(_INODE.unpack_from(answer, _INODE_AT)[0])


_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_EVERY_STATE = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFFFFFFFFFF
_HEAD = struct.Struct("=IHHII")  # length, kind, flags, sequence, process
_QUESTION = struct.Struct("=BBxxI")  # family, protocol, states
_SOCKET = struct.Struct(">HH16s16sIQ")  # ports, addresses, interface, cookie
_INODE = struct.Struct("=I")
_INODE_AT = _HEAD.size + 4 + _SOCKET.size + 16
