"""Memory of connections, bounded for the whole node: what is received, and what is not taken.

One buffer is shared by every connection for the bytes that are served at once. A connection that
is left with part of a frame borrows memory here and gives it back when the frame is served.
"""

from __future__ import annotations

from typing import Final, Protocol

SHARED_BYTES: Final = 256 * 1024
"""What one read takes at most; also what may have to be copied when it ends inside a frame."""

BORROWED_BYTES_MIN: Final = 2 * 1024
"""Enough for the head of most frames; ten thousand clients that trickle hold 20 MB."""

UNSENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Replies in memory that clients do not take, of a whole node."""

SPARE_BYTES_MAX: Final = 16 * 1024 * 1024
SPARES_PER_SIZE_MAX: Final = 8


class BufferPool:
    """Borrowed memory in powers of two; large spares are kept so that the hot path never zeroes.

    Allocating a megabyte for each large produce request costs more than checking its CRC: the
    kernel hands out zeroed pages one fault at a time.
    """

    __slots__ = (
        "_spare_bytes",
        "_spares",
        "borrowed_bytes",
        "borrowed_bytes_max",
        "shared",
        "unsent",
    )

    def __init__(self, borrowed_bytes_max: int) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.borrowed_bytes = 0
        self.borrowed_bytes_max = borrowed_bytes_max
        self.unsent = Unsent()
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


class Debtor(Protocol):
    """A client that does not take its replies."""

    def abort(self) -> None:
        """Close now, whatever waits."""


class Unsent:
    """Replies that wait in memory because clients do not take them.

    A connection has one at a time, and slices of files take no memory. But there are many
    connections, and some replies have megabytes.
    """

    __slots__ = ("_by_debtor", "bytes", "bytes_max")

    def __init__(self, bytes_max: int = UNSENT_BYTES_MAX) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self._by_debtor: dict[Debtor, int] = {}

    def owe(self, debtor: Debtor, size: int) -> Debtor | None:
        """A client was sent so much that it has not taken; who has to go because of it, if all of
        them owe too much: who owes most."""
        self.bytes += size - self._by_debtor.get(debtor, 0)
        self._by_debtor[debtor] = size
        if self.bytes <= self.bytes_max:
            return None
        most = max(self._by_debtor, key=self._by_debtor.__getitem__)
        self.settle(most)  # it is about to go
        return most

    def settle(self, debtor: Debtor) -> None:
        """A client has taken what it was sent, or is gone."""
        self.bytes -= self._by_debtor.pop(debtor, 0)
