"""The way out of a connection: bytes, and slices of files that never enter Python.

While the transport has nothing buffered, a slice goes from the page cache to the socket with
`sendfile`. A socket that is full takes one copied chunk through the transport, whose call back
says when there is room again. TLS has to copy all, and takes turns with other connections. A slice
that the page cache does not hold is read ahead in a worker thread, so that a cold disk never stops
the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

log = logging.getLogger("penstock.net")

CHUNK_BYTES = 16 * 1024
"""What is copied when a socket is full; above the transport's mark, so that it calls back."""

ENCRYPTED_CHUNK_BYTES = 64 * 1024
"""What is encrypted at a time: four records of TLS leave with one system call."""

CORKED_BYTES_MAX = 4 * 1024
"""Larger replies are worth a system call of their own."""

GATHERED_BYTES_MAX = 16 * 1024
"""Replies with slices up to this are copied and leave with one system call, as one packet: what is
spared by not copying so little is less than what the calls for each part cost, here and at the
other end, which each of them wakes up."""

UNPACED = b"reno"
"""The congestion control that every Linux has and lets everybody have. BBR, where that is the
system's own, sends to a client on this machine in small parts by the clock (decision 0028)."""

HIGH_WATER_BYTES = 8 * 1024
LOAD_BYTES_MAX = 1024 * 1024
"""How much of a cold slice is read ahead at a time."""


_CONGESTION: int | None = getattr(socket, "TCP_CONGESTION", None)
_MORE_FOLLOWS = int(socket.MSG_MORE | socket.MSG_DONTWAIT)


class SplicedFile(Protocol):
    """The file behind a slice."""

    def fileno(self) -> int:
        """A descriptor that `sendfile` may read from until the event loop goes on."""

    def pread(self, size: int, position: int) -> bytes: ...

    def pread_cached(self, size: int, position: int) -> bytes | None:
        """The bytes, or None if the page cache does not hold them all."""

    def pread_waiting(self, size: int, position: int) -> bytes:
        """`pread` for worker threads."""


class Splice(Protocol):
    """A slice of a file that stands for its bytes in a reply."""

    @property
    def file(self) -> SplicedFile: ...

    @property
    def position(self) -> int: ...

    @property
    def size(self) -> int: ...


Part = bytes | bytearray | memoryview | Splice


class Outbox:
    """What one connection has still to send."""

    __slots__ = (
        "_corked",
        "_fail",
        "_loading",
        "_loop",
        "_on_room",
        "_parts",
        "_sent",
        "_sock",
        "_transport",
        "congested",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        sock: socket.socket | None,
        loop: asyncio.AbstractEventLoop,
        on_room: Callable[[], None],
        fail: Callable[[], None],
    ) -> None:
        transport.set_write_buffer_limits(HIGH_WATER_BYTES, 0)
        self._transport = transport
        # A second Python object over the same descriptor, never closed: asyncio owns the socket,
        # and only a plain socket object sends with flags.
        self._sock = None if sock is None else socket.socket(fileno=sock.fileno())
        self._loop = loop
        self._on_room = on_room
        self._fail = fail
        self._parts: deque[Part] = deque()
        self._sent = 0  # of the first part, if it is a splice
        self._loading = False
        self._corked: bytearray | None = None  # replies that leave together, while there are more
        self.congested = False

    def serve_nearby(self) -> None:
        """Send without a pace, as is best for a client on this machine."""
        if self._sock is None or _CONGESTION is None:
            return
        # The system has none such, or keeps it to itself, or the client is gone: all else goes on.
        with suppress(OSError):
            self._sock.setsockopt(socket.IPPROTO_TCP, _CONGESTION, UNPACED)

    @property
    def empty(self) -> bool:
        """Whether all was handed to the transport, and taken."""
        return not self._parts and not self.congested

    def send(self, reply: bytearray | list[Part]) -> None:
        """Send a whole reply, after those before it."""
        if self._parts:
            if isinstance(reply, bytearray):
                self._parts.append(reply)
            else:
                self._send_parts(reply)
            return
        if not isinstance(reply, bytearray):
            gathered = _gathered(reply)
            if gathered is None:
                self._send_parts(reply)
                return
            reply = gathered
        if self._corked is None:
            self._transport.write(reply)
        elif len(reply) > CORKED_BYTES_MAX:
            self.uncork()
            self._transport.write(reply)
        else:
            self._corked += reply

    def _send_parts(self, reply: list[Part]) -> None:
        self.uncork()
        self._parts.extend(reply)
        if not self.congested:
            self._advance()

    @property
    def corked(self) -> bool:
        """Whether replies are held back, because there are more requests."""
        return self._corked is not None

    def cork(self) -> None:
        """Hold small replies back until `uncork`.

        A pipelining client's requests come many at a time, and a system call for each reply
        would cost as much as serving it.
        """
        if self._corked is None:
            self._corked = bytearray()

    def uncork(self) -> None:
        """Let go of what was held back."""
        corked, self._corked = self._corked, None
        if corked:
            self._transport.write(corked)

    def pump(self) -> None:
        """Go on after the transport took what it had."""
        if self._parts:
            self._advance()
        if not self._parts and not self.congested:
            self._on_room()

    def forget(self) -> None:
        """The connection is gone."""
        self._parts.clear()
        if self._sock is not None:
            self._sock.detach()
            self._sock = None

    def _advance(self) -> None:
        parts = self._parts
        while parts and not self.congested and not self._loading:
            part = parts[0]
            if not isinstance(part, bytes | bytearray | memoryview):
                if not self._send_slice(part):
                    return
            elif len(parts) > 1 and self._sock is not None and not self._buffered():
                self._send_head(part)
            else:
                self._transport.write(part)
            parts.popleft()

    def _buffered(self) -> bool:
        return self._transport.get_write_buffer_size() > 0

    def _send_head(self, part: bytes | bytearray | memoryview) -> None:
        # MSG_MORE: the slice that follows shares the packet.
        assert self._sock is not None
        try:
            count = self._sock.send(part, _MORE_FOLLOWS)
        except BlockingIOError:
            count = 0
        except OSError:
            self._transport.write(part)  # the transport meets the same error and tells asyncio
            return
        if count < len(part):
            self._transport.write(memoryview(part)[count:])

    def _send_slice(self, part: Splice) -> bool:
        """True when all of it was sent or handed over."""
        while self._sent < part.size:
            position = part.position + self._sent
            ahead = min(part.size - self._sent, LOAD_BYTES_MAX)
            try:
                if not _is_cached(part.file, position, ahead):
                    self._load(part.file, position, ahead)
                    return False
                count = self._copy_free(part.file, position, ahead)
                if count < ahead:
                    count += self._copy(part.file, position + count, ahead - count)
            except ConnectionError:
                self._fail()  # whoever asked has hung up: that is their right, and no news
                return False
            except OSError as problem:
                log.warning("cannot send a slice of a log: %s", problem)
                self._fail()
                return False
            self._sent += count
            if self._sent < part.size:
                if self.congested:
                    return False
                if self._sock is None:
                    # Encrypting a megabyte takes as long as serving many others.
                    self._loop.call_soon(self.pump)
                    return False
        self._sent = 0
        return True

    def _copy_free(self, file: SplicedFile, position: int, size: int) -> int:
        if self._sock is None or self._buffered():
            return 0
        try:
            count = os.sendfile(self._sock.fileno(), file.fileno(), position, size)
        except BlockingIOError:
            return 0
        if count < size:
            # What a small socket holds back because `sendfile` promised more has to leave now:
            # nothing else would say that there is room again. To set this option anew does that.
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return count

    def _copy(self, file: SplicedFile, position: int, size: int) -> int:
        if self._sock is not None:
            return self._copy_chunk(file, position, min(size, CHUNK_BYTES))
        copied = 0
        while copied < size and not self.congested:
            chunk = min(size - copied, ENCRYPTED_CHUNK_BYTES)
            copied += self._copy_chunk(file, position + copied, chunk)
        return copied

    def _copy_chunk(self, file: SplicedFile, position: int, size: int) -> int:
        chunk = file.pread(size, position)
        if not chunk:
            raise OSError("the file is shorter than the slice that was promised")
        self._transport.write(chunk)
        return len(chunk)

    def _load(self, file: SplicedFile, position: int, size: int) -> None:
        self._loading = True
        job = self._loop.run_in_executor(None, file.pread_waiting, size, position)
        job.add_done_callback(lambda done: self._loaded(size, done))

    def _loaded(self, size: int, job: asyncio.Future[bytes]) -> None:
        self._loading = False
        if self._transport.is_closing():
            return
        problem = job.exception()
        if problem is not None:
            log.error("cannot read a slice of a log", exc_info=problem)
            self._fail()
        elif len(job.result()) < size:
            # Loading it again would find no more: the file was cut under its reader.
            log.error("a slice of a log ends %d bytes early", size - len(job.result()))
            self._fail()
        else:
            self.pump()


def _gathered(parts: list[Part]) -> bytearray | None:
    """A small reply in one piece; None if it is large, or not all of it is in memory."""
    size = 0
    for part in parts:
        size += len(part) if isinstance(part, bytes | bytearray | memoryview) else part.size
    if size > GATHERED_BYTES_MAX:
        return None
    whole = bytearray()
    for part in parts:
        if isinstance(part, bytes | bytearray | memoryview):
            whole += part
            continue
        try:
            found = part.file.pread_cached(part.size, part.position)
        except OSError:
            return None  # whoever sends it as a slice says what is wrong
        if found is None or len(found) < part.size:
            return None
        whole += found
    return whole


def _is_cached(file: SplicedFile, position: int, size: int) -> bool:
    # Both ends: readers of old data come in sequence, so what is missing is missing from an end.
    return (
        file.pread_cached(1, position) is not None
        and file.pread_cached(1, position + size - 1) is not None
    )
