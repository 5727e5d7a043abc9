"""A service that does what its frames say, and a client that speaks frames.

The first byte of a frame is a command: `e` echo at once, `w` wait until the test releases it, `o`
the same for a request that may overlap others, `l` the same with a reply that is told on the spot,
`n` no reply, `x` close, `!` our own fault, `s` a slice of the service's file between two bytes
strings, `b` a large reply, `m` echo and mute.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import cast

from penstock.net.admission import Admission
from penstock.net.buffers import BufferPool
from penstock.net.connection import CloseConnection, Connection, Reply
from penstock.net.late_reply import LateReply
from penstock.net.listener import Limits, Listener
from penstock.net.tls import ServerTls
from penstock.platform.disk import Disk, File

LARGE_BYTES = 4_000_000
MUTE_SECONDS = 0.3
NARROW_BYTES = 65536


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Slice:
    """A slice of a file, as storage hands them out."""

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size


class ScriptedService:
    """Serves frames by their first byte and remembers the order in which they came."""

    def __init__(self, file: File | None = None) -> None:
        self.served: list[bytes] = []
        self.runs: list[list[bytes]] = []
        self.together = 0
        self.waiting: dict[bytes, asyncio.Future[Reply | None] | LateReply[Reply]] = {}
        self.file = file
        self.slice_begin = 0
        self.head = b"head"

    def gate(self, _: Connection) -> None:
        """Everybody passes."""

    def may_overlap(self, view: memoryview) -> bool:
        return bytes(view[:1]) in (b"o", b"l")

    def serve_run(
        self, connection: Connection, frames: list[memoryview]
    ) -> list[Reply | LateReply[Reply]]:
        """Those that begin with `l`, up to `together` of them."""
        bodies = [bytes(each) for each in frames]
        self.runs.append(bodies)
        taken = list(takewhile(lambda body: body[:1] == b"l", bodies))[: self.together]
        return [cast(LateReply[Reply], self.serve(connection, memoryview(each))) for each in taken]

    def serve(
        self, connection: Connection, view: memoryview
    ) -> Reply | asyncio.Future[Reply | None] | LateReply[Reply] | None:
        body = bytes(view)
        self.served.append(body)
        match body[:1]:
            case b"n":
                return None
            case b"x":
                raise CloseConnection("asked to")
            case b"!":
                raise RuntimeError("a fault of our own")
            case b"w" | b"o":
                self.waiting[body] = asyncio.get_running_loop().create_future()
                return self.waiting[body]
            case b"l":
                self.waiting[body] = LateReply()
                return self.waiting[body]
            case b"b":
                return bytearray(frame(b"b" * LARGE_BYTES))
            case b"s":
                return self._spliced()
            case b"m":
                connection.mute(MUTE_SECONDS)
        return bytearray(frame(body))

    def _spliced(self) -> Reply:
        assert self.file is not None
        size = self.file.size - self.slice_begin
        head = bytearray(struct.pack(">i", len(self.head) + size + 4) + self.head)
        return [head, Slice(self.file, self.slice_begin, size), bytearray(b"tail")]

    def release(self, body: bytes) -> None:
        """Answer a request that waits, with its own bytes."""
        self.waiting.pop(body).set_result(bytearray(frame(body)))


class GuardedGate:
    """Lets nobody pass before the service has heard an `h`."""

    def __init__(self) -> None:
        self.open = False
        self.on_entry: Callable[[], None] | None = None

    def passes(self, _: float) -> bool:
        return self.open

    def let_in(self) -> None:
        self.open = True
        assert self.on_entry is not None
        self.on_entry()


class GuardedService(ScriptedService):
    """Asks who is there: `h` says who."""

    def gate(self, _: Connection) -> GuardedGate:  # type: ignore[override]
        return GuardedGate()

    def serve(
        self, connection: Connection, view: memoryview
    ) -> Reply | asyncio.Future[Reply | None] | LateReply[Reply] | None:
        if bytes(view[:1]) == b"h":
            connection.gate.let_in()
        return super().serve(connection, view)


class SlowService(ScriptedService):
    """Takes its time over each request, as long as it takes, without giving way."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def serve(
        self, connection: Connection, view: memoryview
    ) -> Reply | asyncio.Future[Reply | None] | LateReply[Reply] | None:
        time.sleep(self._seconds)
        return super().serve(connection, view)


class ColdFile:
    """A file that the page cache does not hold until the test says so."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._warm = threading.Event()
        self.size = file.size
        self.asked = False

    def warm(self) -> None:
        self._warm.set()

    def fileno(self) -> int:
        return self._file.fileno()

    def pread(self, size: int, position: int) -> bytes:
        return self._file.pread(size, position)

    def pread_cached(self, size: int, position: int) -> bytes | None:
        return self._file.pread(size, position) if self._warm.is_set() else None

    def pread_waiting(self, size: int, position: int) -> bytes:
        self.asked = True
        assert self._warm.wait(10)
        return self._file.pread(size, position)


class Client:
    """One connection that sends and receives frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(frame(body) for body in bodies))

    async def receive(self) -> bytes:
        async with asyncio.timeout(10):
            size = struct.unpack(">i", await self.reader.readexactly(4))[0]
            return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Whether the server closes without another byte, soon."""
        try:
            async with asyncio.timeout(5):
                return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True

    async def hears_nothing(self) -> bool:
        try:
            async with asyncio.timeout(0.1):
                await self.reader.read(1)
        except TimeoutError:
            return True
        return False

    def reset(self) -> None:
        """Go away at once: a mere end would be a half-close."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


class Running:
    """A listener on a free port, its service, and clients that close with it."""

    def __init__(self, listener: Listener, service: ScriptedService) -> None:
        self.listener = listener
        self.service = service
        self._clients: list[Client] = []

    async def client(self, tls: ssl.SSLContext | None = None) -> Client:
        made = await asyncio.open_connection("127.0.0.1", self.listener.port, ssl=tls)
        return self._kept(Client(*made))

    async def narrow_client(self) -> Client:
        """One whose kernel takes little that it does not read, whatever the machine's defaults."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)  # before it connects
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.listener.port))
        return self._kept(Client(*await asyncio.open_connection(sock=sock)))

    def _kept(self, client: Client) -> Client:
        self._clients.append(client)
        return client

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()


@asynccontextmanager
async def running(
    limits: Limits | None = None,
    service: ScriptedService | None = None,
    memory_max: int = 1 << 30,
    admission: Admission | None = None,
    tls: ServerTls | None = None,
) -> AsyncIterator[Running]:
    service = service or ScriptedService()
    limits = limits or Limits()
    listener = Listener("PLAINTEXT", BufferPool(memory_max), limits, tls, admission)
    listener.service = service
    listener.bind("127.0.0.1", 0)
    await listener.start()
    node = Running(listener, service)
    try:
        yield node
    finally:
        node.close_clients()
        await listener.stop(0)


async def eventually(condition: object, seconds_max: float = 5.0) -> None:
    """Wait until `condition()` holds."""
    assert callable(condition)
    async with asyncio.timeout(seconds_max):
        while not condition():
            await asyncio.sleep(0.005)


def file_of(disk: Disk, path: str, content: bytes) -> File:
    made = disk.open(path, create=True)
    made.append(content)
    return made
