"""The newest offset of each key in the dirty part of a log, in memory of a fixed size.

Keys are kept as 16-byte digests in an open-addressing table of 24 bytes a slot. A dictionary would
be a little faster and take seven times as much, and each time the table is full the whole log is
copied once more. The digest is keyed with a salt that changes each time: nobody can prepare two
keys that are taken for one.
"""

from __future__ import annotations

import hashlib
import struct

from penstock.records.batch import Bytes

SLOT_SIZE = 24
SLOTS_MIN = 1024
DIGEST_SIZE = 16

_PAIR = struct.Struct("=QQ")


class OffsetMap:
    """Key to newest offset. Holds `entries_max` keys; ask `is_full` before each `put`."""

    __slots__ = ("_hasher", "_highs", "_lows", "_mask", "_offsets", "end", "entries_max", "size")

    def __init__(self, memory: int, entries: int, salt: bytes) -> None:
        """Room for `entries` keys, or for as many as fit into `memory` bytes."""
        slots = SLOTS_MIN
        while slots * 3 // 4 < entries and slots * 2 * SLOT_SIZE <= memory:
            slots *= 2
        self._mask = slots - 1
        # Fresh bytearrays are zero pages that cost nothing until they are touched.
        self._highs = memoryview(bytearray(8 * slots)).cast("Q")
        self._lows = memoryview(bytearray(8 * slots)).cast("Q")
        self._offsets = memoryview(bytearray(8 * slots)).cast("Q")  # plus one: 0 is a free slot
        self._hasher = hashlib.blake2b(digest_size=DIGEST_SIZE, key=salt)
        self.size = 0
        self.entries_max = slots * 3 // 4
        self.end = 0
        """The map speaks for every offset below this one, from where the dirty part began."""

    @property
    def is_full(self) -> bool:
        return self.size >= self.entries_max

    def put(self, key: Bytes, offset: int) -> None:
        """`offset` is the newest of `key` so far: call in the order of offsets."""
        high, low, at = self._find(key)
        if not self._offsets[at]:
            self._highs[at] = high
            self._lows[at] = low
            self.size += 1
        self._offsets[at] = offset + 1

    def get(self, key: Bytes) -> int:
        """The newest offset of `key`, -1 if the dirty part does not have it."""
        return self._offsets[self._find(key)[2]] - 1

    def _find(self, key: Bytes) -> tuple[int, int, int]:
        """The two halves of the digest, and the slot that holds them or is free for them."""
        hasher = self._hasher.copy()
        hasher.update(key)
        high, low = _PAIR.unpack(hasher.digest())
        mask, offsets, lows, highs = self._mask, self._offsets, self._lows, self._highs
        at = low & mask
        while offsets[at] and (lows[at] != low or highs[at] != high):
            at = (at + 1) & mask
        return high, low, at
