"""TLS between a socket and a connection: to the one a protocol, to the other a transport.

The event loop's own TLS would do most of it. This one also tells a client that is refused why, in
TLS's own words; says who failed and for what reason; lets keys be exchanged between two
connections; bounds how many handshakes are unfinished; takes no receive memory for a connection
that is idle; and lets a client that has finished asking still hear its answers.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.net.connection import Connection
    from penstock.net.handshakes import Handshakes

FED_BYTES = 32 * 1024
ENCRYPTED_BYTES = 64 * 1024
"""What OpenSSL holds at a time, on the way in and on the way out: it keeps the memory that it ever
needed for as long as the connection lives."""

GREETING_BYTES = 32 * 1024
"""What is received before hands are shaken, or before it is the client's turn to do so."""

UNREAD_BYTES_MAX = 4 * 1024
"""Of what TLS answers by itself: a client that asks for new keys on and on gets as many bytes as it
sends, and could let them pile up here."""

GATHERED_BYTES_MAX = 64 * 1024
"""Of a frame that is not whole yet the kernel gathers so much before it wakes us. librdkafka makes
many small TLS records of a frame and sends each at once: on a quiet machine that were twenty-five
times as many reads. (Most of the work is to decrypt so many records, and stays.)"""

_NOTHING = memoryview(b"")

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})
"""How OpenSSL says that the first bytes were no greeting of TLS."""


class ServerTls(Protocol):
    """What a listener needs to know about TLS."""

    def context(self) -> ssl.SSLContext:
        """The keys and the trust of now."""

    def failed(self, host: str, reason: str) -> None:
        """Somebody at `host` was not let in, or broke TLS's rules later."""


class Encrypted(asyncio.BufferedProtocol):
    """One client's socket, and above it, once hands were shaken, its connection."""

    __slots__ = (
        "_closing",
        "_connection",
        "_ended",
        "_farewell",
        "_file",
        "_gathered",
        "_handshakes",
        "_incoming",
        "_outgoing",
        "_reading",
        "_socket",
        "_tls",
        "_unfed",
        "_unread",
        "host",
    )

    _socket: asyncio.Transport
    _tls: ssl.SSLObject

    def __init__(self, handshakes: Handshakes) -> None:
        self.host = ""
        self._handshakes = handshakes
        self._connection: Connection | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._unfed = _NOTHING  # received, and not given to TLS yet
        self._unread = 0  # bytes that TLS said by itself since the socket last took everything
        self._reading = True
        self._file: Any = None
        self._gathered = 1  # bytes for which the kernel wakes us
        self._farewell = False  # whether TLS was told that no more comes
        self._ended = False  # whether the connection was told so
        self._closing = False

    # -- the socket's side: asyncio calls ---------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.host = host_of(transport)
        self._tls = self._handshakes.begin(self, self._incoming, self._outgoing)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        room = self._handshakes.room
        return room if self._connection is not None else room[:GREETING_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing:
            return
        self._unfed = self._handshakes.room[:nbytes]
        if self._connection is not None:
            self._read()
        else:
            self._handshakes.queue(self)
            if self._incoming.pending >= GREETING_BYTES:
                self._socket.pause_reading()  # until it is its turn
        self._feed(nbytes)  # what is not wanted yet: the next to receive needs the room

    def eof_received(self) -> bool:
        if self._connection is None:
            self._closing = True
            self._handshakes.forget(self)
            return False
        # Without TLS's own farewell somebody may have cut what was sent; but frames say how long
        # they are, and one that is cut is not served.
        self._end()
        return not self._closing

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._connection is None:
            self._handshakes.forget(self)
        else:
            self._connection.connection_lost(exc)
        # What OpenSSL holds goes now: the garbage collector sees little of it, and may take long.
        del self._tls, self._incoming, self._outgoing

    # -- hands are shaken -------------------------------------------------------------------

    def shake_hands(self) -> None:
        """Go on with what the client said."""
        if self.is_closing():
            return
        self._socket.resume_reading()
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as problem:
            self._flush()  # an alert, in which the client can read why
            self._closing = True
            self._handshakes.failed(self, reason_of(problem))
            self._socket.close()
            return
        self._flush()
        connection = self._connection = self._handshakes.done(self)
        connection.connection_made(cast(asyncio.Transport, self))
        self._read()

    # -- reading ----------------------------------------------------------------------------

    def _read(self) -> None:
        """Hand over what arrived, as long as it is wanted."""
        if self._closing:
            return
        connection = self._connection
        assert connection is not None
        more = True
        try:
            while more and self._reading and not self._closing and self._waiting():
                filled, more = self._fill(connection.get_buffer(-1))
                if filled:
                    connection.buffer_updated(filled)
            self._gather(connection.missing_bytes if more else 1)
            if self._farewell and self._reading and not self._closing:
                self._end()
            if self._outgoing.pending:
                self._answer()
        except ssl.SSLError as problem:
            self._flush()
            self._break_off(problem)

    def _gather(self, missing: int) -> None:
        """Be woken when as many bytes are there as a frame lacks: encrypted it has even more.

        Only where all that came has been decrypted: of part of a record nobody knows how much of
        it is here, and the rest might be less than what the kernel would wait for.
        """
        count = min(max(missing, 1), GATHERED_BYTES_MAX)
        if count != self._gathered and not self._closing:
            self._gathered = count
            if self._file is None:  # uvloop makes a new one each time it is asked
                self._file = self._socket.get_extra_info("socket")
            self._file.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def _answer(self) -> None:
        """Some of what arrives is for TLS alone, and answered by it."""
        self._unread += self._outgoing.pending
        self._flush()
        if not self._socket.get_write_buffer_size():
            self._unread = 0
        elif self._unread > UNREAD_BYTES_MAX:
            self._handshakes.failed(self, "does not read the answers of TLS")
            self.abort()

    def _fill(self, room: memoryview) -> tuple[int, bool]:
        """Decrypt into the room. How much there was, and whether there may be more."""
        filled, size = 0, len(room)
        incoming = self._incoming
        read: Callable[[int, memoryview], int] = self._tls.read  # type: ignore[assignment]
        count = self._tls.pending()  # of a record that the last room was too small for
        while filled < size:
            # A quarter of what is encrypted is there once it is decrypted, but for records of a few
            # bytes: so far there is no need to ask whether there is more.
            sure = min(filled + (incoming.pending + 3 >> 2 or count), size)
            if sure == filled:
                if not self._feed(FED_BYTES):
                    return filled, True
                continue
            try:
                # librdkafka makes two records of each message: this loop is as hot as any.
                while filled < sure and (count := read(size, room[filled:])):
                    filled += count
            except ssl.SSLWantReadError:
                if not self._feed(FED_BYTES):
                    return filled, False
                continue  # with the rest of a record
            except ssl.SSLZeroReturnError:
                count = 0
            if not count:
                self._farewell = True
                return filled, False
            count = 0
        return filled, True

    def _feed(self, count: int) -> int:
        """Give TLS more of what was received. It never gives memory back: so it has little."""
        fed, self._unfed = self._unfed[:count], self._unfed[count:]
        return self._incoming.write(fed)

    def _waiting(self) -> int:
        return self._incoming.pending or len(self._unfed) or self._tls.pending()

    def _end(self) -> None:
        """The client sends no more; it may still wait for answers."""
        assert self._connection is not None
        if not self._ended:
            self._ended = True
            if not self._connection.eof_received():
                self.close()

    # -- the connection's side: a transport -------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send; the whole of it is taken."""
        if self._closing or not data:
            return
        try:
            part = data if len(data) <= ENCRYPTED_BYTES else memoryview(data)[:ENCRYPTED_BYTES]
            sent = self._tls.write(part)
            self._flush()
            while sent < len(data) and not self._closing:
                sent += self._tls.write(memoryview(data)[sent : sent + ENCRYPTED_BYTES])
                self._flush()
        except ssl.SSLError as problem:
            self._break_off(problem)

    def _break_off(self, problem: ssl.SSLError) -> None:
        self._handshakes.failed(self, reason_of(problem))
        self.abort()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Of encrypted bytes."""
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Of encrypted bytes."""
        return self._socket.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Hand nothing over until `resume_reading`, not even what has arrived."""
        self._reading = False
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Go on: with what has arrived, and then with the socket."""
        if self._closing:
            return
        self._reading = True
        self._socket.resume_reading()
        if self._farewell or self._waiting():
            self._handshakes.loop.call_soon(self._read)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the socket knows, and what TLS does."""
        return self._tls if name == "ssl_object" else self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing or self._socket.is_closing()

    def close(self) -> None:
        """Say farewell, and close when all has left. Nobody waits for the client's farewell."""
        if self._closing:
            return
        self._closing = True
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # its own is still to come, or it does not speak as it should: we leave anyway
        self._flush()
        self._socket.close()

    def abort(self) -> None:
        """Close now, whatever waits."""
        self._closing = True
        self._socket.abort()


def host_of(transport: asyncio.BaseTransport) -> str:
    """The address at the other end, as rules know it."""
    name = transport.get_extra_info("peername")
    # A socket for both families shows IPv4 clients as IPv6: rules know the plain form.
    return name[0].removeprefix("::ffff:") if isinstance(name, tuple) else ""


def reason_of(problem: BaseException) -> str:
    """Why TLS failed, in words, and without the place in Python's own code."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {problem.verify_message}"
    if isinstance(problem, ssl.SSLError) and problem.reason:
        if problem.reason in _NOT_TLS:
            return "the other side speaks without TLS where TLS is spoken"
        return problem.reason.lower().replace("_", " ")
    return str(problem) or type(problem).__name__
