"""Receive memory, bounded for the whole node and reused.

One buffer is shared by every connection for the bytes that are served at once. A connection that
is left with part of a frame borrows memory here and gives it back when the frame is served.
"""

from __future__ import annotations

from typing import Final

SHARED_BYTES: Final = 256 * 1024
"""What one read takes at most; also what may have to be copied when it ends inside a frame."""

BORROWED_BYTES_MIN: Final = 16 * 1024
SPARE_BYTES_MAX: Final = 16 * 1024 * 1024
SPARES_PER_SIZE_MAX: Final = 8


class BufferPool:
    """Borrowed memory in powers of two; large spares are kept so that the hot path never zeroes.

    Allocating a megabyte for each large produce request costs more than checking its CRC: the
    kernel hands out zeroed pages one fault at a time.
    """

    __slots__ = ("_spare_bytes", "_spares", "borrowed_bytes", "borrowed_bytes_max", "shared")

    def __init__(self, borrowed_bytes_max: int) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.borrowed_bytes = 0
        self.borrowed_bytes_max = borrowed_bytes_max
        self._spares: dict[int, list[bytearray]] = {}
        self._spare_bytes = 0

    @property
    def exhausted(self) -> bool:
        """Whether all that may be lent is lent."""
        return self.borrowed_bytes > self.borrowed_bytes_max

    def borrow(self, size: int) -> bytearray:
        """At least `size` bytes, with anything in them."""
        size = BORROWED_BYTES_MIN if size <= BORROWED_BYTES_MIN else 1 << (size - 1).bit_length()
        self.borrowed_bytes += size
        spares = self._spares.get(size)
        if spares:
            self._spare_bytes -= size
            return spares.pop()
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        """Return what `borrow` gave; nobody may look at it any more."""
        size = len(buffer)
        self.borrowed_bytes -= size
        spares = self._spares.setdefault(size, [])
        if len(spares) < SPARES_PER_SIZE_MAX and self._spare_bytes + size <= SPARE_BYTES_MAX:
            spares.append(buffer)
            self._spare_bytes += size
