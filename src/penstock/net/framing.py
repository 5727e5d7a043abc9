"""Cutting a byte stream into frames. Pure: buffers and numbers, no socket.

A frame on Kafka's wire is a signed 32-bit length and that many bytes. Bytes arrive in a buffer
that all connections of a node share, because nearly every read ends on a frame's edge and is
served before the next read begins. Only a connection that holds part of a frame has memory of
its own: ten thousand idle connections cost none, and a large frame is received in place.
"""

from __future__ import annotations

import struct
from typing import Final

from penstock.net.buffers import BORROWED_BYTES_MIN, SHARED_BYTES, BufferPool

_LENGTH: Final = struct.Struct(">i")
_TLS_GREETING: Final = 0x1603
"""How a client of TLS begins: as the start of a length, some 370 MB."""


BUSY_BYTES: Final = 32 * 1024
"""A read of so much says that the peer is sending in bulk."""


PEEK_BYTES: Final = 64 * 1024
"""How much to read first where a large frame is expected: the rest is received in its place."""


class FrameError(ValueError):
    """The peer announced a frame that no honest client sends."""


def frame_length(view: memoryview, at: int, bytes_max: int) -> int:
    """The length announced in the four bytes at `at`."""
    length: int = _LENGTH.unpack_from(view, at)[0]
    if length < 0:
        raise FrameError(f"a frame of {length} bytes was announced; a length cannot be negative")
    if length > bytes_max:
        if length >> 16 == _TLS_GREETING:
            raise FrameError("it speaks TLS, and this listener does not: see security.protocol")
        raise FrameError(
            f"a frame of {length} bytes was announced; at most {bytes_max} are taken "
            "(socket.request.max.bytes)"
        )
    return length


class FrameAssembly:
    """The unserved end of one connection's input.

    `room()` says where the next bytes go; `take(count)` says that they came, and gives all that
    waits; `keep(view)` puts aside what could not be served yet.
    """

    __slots__ = ("_busy", "_filled", "_large", "_limit", "_owned", "_pool", "frame_bytes_max")

    def __init__(self, pool: BufferPool, frame_bytes_max: int) -> None:
        self._pool = pool
        self._owned: bytearray | None = None
        self._filled = 0
        self._limit = 0  # how far into the owned buffer to receive
        self._busy = False  # whether the last read was so large that more is to be expected
        self._large = False  # whether the last frame was larger than the shared buffer
        self.frame_bytes_max = frame_bytes_max

    @property
    def held_bytes(self) -> int:
        """Memory that this connection holds for input that has not been served."""
        return 0 if self._owned is None else len(self._owned)

    @property
    def waiting(self) -> bool:
        """Whether bytes were put aside."""
        return self._filled > 0

    @property
    def missing(self) -> int:
        """How many bytes the frame that waits still lacks; 0 if none waits, or who knows how many.

        What waits may also be whole frames that are not served yet: then nothing is missing.
        """
        if self._owned is None or self._filled < 4:
            return 0
        length: int = _LENGTH.unpack_from(self._owned)[0]
        return max(0, 4 + length - self._filled)

    def room(self) -> memoryview:
        """Where to receive next."""
        owned = self._owned
        if owned is None:
            shared = self._pool.shared
            # What a large frame puts into the shared buffer has to be copied out of it again.
            return shared[:PEEK_BYTES] if self._large else shared
        if self._filled == self._limit:
            owned = self._grow(owned)
        return memoryview(owned)[self._filled : self._limit]

    def take(self, count: int) -> memoryview:
        """All bytes that wait, after `count` more arrived in `room()`."""
        owned = self._owned
        if count:
            self._busy = count >= BUSY_BYTES
        if owned is None:
            if self._large:
                self._large = count == PEEK_BYTES
            return self._pool.shared[:count]
        self._filled += count
        return memoryview(owned)[: self._filled]

    def keep(self, rest: memoryview) -> None:
        """Put `rest`, the unserved end of what `take` gave, aside until more arrives."""
        count = len(rest)
        old = self._owned
        if count == 0:
            self.drop()
        elif old is None or self._filled != count:  # else it already stands at the front
            self._hold(rest, self._size_for(rest))
            if old is not None:
                self._pool.give_back(old)

    def drop(self) -> None:
        """Forget what waits and give the memory back."""
        owned = self._owned
        if owned is not None:
            self._owned = None
            self._filled = 0
            self._pool.give_back(owned)

    def _grow(self, old: bytearray) -> bytearray:
        waiting = memoryview(old)[: self._filled]
        owned = self._hold(waiting, max(2 * self._filled, self._size_for(waiting)))
        self._pool.give_back(old)
        return owned

    def _hold(self, waiting: memoryview, size: int) -> bytearray:
        owned = self._pool.borrow(size)
        count = len(waiting)
        owned[:count] = waiting
        self._owned = owned
        self._filled = count
        # Up to the end of a large frame and no further: what lies behind it would be copied.
        self._large = size > SHARED_BYTES
        self._limit = size if self._large else len(owned)
        return owned

    def _size_for(self, waiting: memoryview) -> int:
        # Memory follows the bytes that really came: announcing a length alone buys nothing.
        count = len(waiting)
        if count < 4:
            return BORROWED_BYTES_MIN
        frame = 4 + frame_length(waiting, 0, self.frame_bytes_max)
        if self._busy and frame < SHARED_BYTES:
            return max(count, SHARED_BYTES)  # more frames are coming: take many with one read
        return max(count, min(frame, 16 * count))
