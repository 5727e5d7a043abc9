"""Cutting what another node sends into answers. Pure: buffers and numbers, no socket.

An answer has memory of its own, because whoever asked may keep what he reads from it: a follower
writes the records of a fetch from where they were received. A small answer is copied there from a
buffer that the connection keeps; a large one is received in its place, but for its beginning.
"""

from __future__ import annotations

import struct
from typing import Final

KEPT_BYTES: Final = 64 * 1024
"""What one read takes while no large answer is under way."""

_LENGTH: Final = struct.Struct(">i")


class AnswerError(ValueError):
    """The other node announced an answer that no node sends."""


class AnswerAssembly:
    """The unread end of what one node sends.

    `room()` says where the next bytes go; `take(count)` says that they came, and gives the answers
    that are whole now.
    """

    __slots__ = ("_bytes_max", "_filled", "_kept", "_large", "_missing")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept = memoryview(bytearray(KEPT_BYTES))
        self._filled = 0
        self._large: memoryview | None = None
        self._missing = 0  # bytes of the large answer that are still to come

    def room(self) -> memoryview:
        """Where to receive next."""
        if self._large is not None:
            return self._large[-self._missing :]
        return self._kept[self._filled :]

    def take(self, count: int) -> list[memoryview]:
        """The answers that are whole after `count` more bytes arrived in `room()`."""
        large = self._large
        if large is None:
            self._filled += count
            return self._cut()
        self._missing -= count
        if self._missing:
            return []
        self._large = None
        return [large]

    def _cut(self) -> list[memoryview]:
        kept, end = self._kept, self._filled
        whole: list[memoryview] = []
        at = 0
        while end - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(kept, at)
            if not 0 <= size <= self._bytes_max:
                raise AnswerError(f"an answer of {size} bytes")
            begin = at + _LENGTH.size
            if begin + size > end:
                if begin + size > KEPT_BYTES:
                    self._receive_apart(kept[begin:end], size)
                    return whole
                break
            at = begin + size
            whole.append(memoryview(bytes(kept[begin:at])))
        self._filled = end - at
        if at and self._filled:
            kept[: self._filled] = bytes(kept[at:end])
        return whole

    def _receive_apart(self, begun: memoryview, size: int) -> None:
        """Give a large answer its own memory, of which `begun` is the beginning."""
        large = memoryview(bytearray(size))
        large[: len(begun)] = begun
        self._large = large
        self._missing = size - len(begun)
        self._filled = 0
