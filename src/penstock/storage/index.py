"""The sparse indexes of a segment: offset to position, and timestamp to offset.

Kafka's files: `.index` holds pairs (offset relative to the segment's base, position), 4 bytes
each; `.timeindex` holds (timestamp 8, relative offset 4); both big-endian and growing. An entry is
made every `index.interval.bytes`. An offset entry names the *last* offset of the batch at its
position; a time entry says that no record up to its offset is younger than its timestamp.

In memory the columns are arrays, so that a look-up is one C bisection.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import chain

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12

_SWAP = sys.byteorder == "little"


class CorruptIndex(ValueError):
    """An index file cannot be what was written. The segment holds the truth: rebuild."""


class SegmentIndex:
    """Both indexes of one segment. Offsets in here are relative to the segment's base."""

    __slots__ = (
        "offsets",
        "offsets_written",
        "positions",
        "time_offsets",
        "times",
        "times_written",
    )

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")
        self.times = array("q")
        self.time_offsets = array("i")
        self.offsets_written = -1  # entries that the file already holds; -1: there is no file
        self.times_written = -1

    @property
    def memory(self) -> int:
        """Bytes of the entries, for bounding a cache."""
        return 8 * len(self.offsets) + 12 * len(self.times)

    def is_full(self, bytes_max: int, more: int = 0) -> bool:
        """Whether a file of either index would pass segment.index.bytes, as Kafka counts, with so
        many more entries."""
        return (
            len(self.offsets) + more >= bytes_max // OFFSET_ENTRY_SIZE
            or len(self.times) + more >= bytes_max // TIME_ENTRY_SIZE - 1
        )

    def add(self, last: int, position: int) -> None:
        """The batch at `position` ends with offset `last`."""
        self.offsets.append(last)
        self.positions.append(position)

    def add_time(self, timestamp: int, offset: int) -> None:
        """Nothing up to `offset` is younger than `timestamp`; kept only if time moved on."""
        times = self.times
        if timestamp > (times[-1] if times else -1):
            times.append(timestamp)
            self.time_offsets.append(offset)

    def floor(self, offset: int) -> int:
        """The entry to start looking for `offset` from: its number, or -1 for the beginning."""
        return bisect_right(self.offsets, offset) - 1

    def position_before(self, offset: int) -> int:
        """A batch boundary at or before the batch that holds `offset`."""
        entry = bisect_right(self.offsets, offset) - 1
        return self.positions[entry] if entry >= 0 else 0

    def offset_before_time(self, timestamp: int) -> int:
        """Every record before this offset is older than `timestamp`."""
        entry = bisect_right(self.times, timestamp - 1) - 1
        return self.time_offsets[entry] if entry >= 0 else 0

    def truncate(self, offset: int) -> None:
        """Forget what speaks of `offset` or later ones."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:], self.positions[keep:]
        self.offsets_written = min(self.offsets_written, keep)
        keep = bisect_left(self.time_offsets, offset)
        del self.times[keep:], self.time_offsets[keep:]
        self.times_written = min(self.times_written, keep)

    def offset_bytes(self, start: int, end: int) -> bytes:
        """Entries [start, end) as the `.index` file has them."""
        pairs = zip(self.offsets[start:end], self.positions[start:end], strict=True)
        flat = array("i", chain.from_iterable(pairs))
        if _SWAP:
            flat.byteswap()
        return flat.tobytes()

    def time_bytes(self, start: int, end: int) -> bytes:
        """Entries [start, end) as the `.timeindex` file has them."""
        pairs = zip(self.times[start:end], self.time_offsets[start:end], strict=True)
        return struct.pack(">" + "qi" * (end - start), *chain.from_iterable(pairs))

    @classmethod
    def parse(cls, offset_data: bytes, time_data: bytes, log_size: int) -> SegmentIndex:
        """The indexes that two files hold; CorruptIndex if they contradict themselves."""
        if len(offset_data) % OFFSET_ENTRY_SIZE or len(time_data) % TIME_ENTRY_SIZE:
            raise CorruptIndex("the file ends within an entry")
        index = cls()
        flat = array("i", offset_data)
        if _SWAP:
            flat.byteswap()
        index.offsets, index.positions = flat[0::2], flat[1::2]
        flat_times = struct.unpack(">" + "qi" * (len(time_data) // TIME_ENTRY_SIZE), time_data)
        index.times, index.time_offsets = array("q", flat_times[0::2]), array("i", flat_times[1::2])
        index.offsets_written, index.times_written = len(index.offsets), len(index.times)
        _check_growing(index.offsets, strictly=True)
        _check_growing(index.positions, strictly=True)
        _check_growing(index.times, strictly=True)
        _check_growing(index.time_offsets, strictly=False)
        if index.positions and index.positions[-1] >= log_size:
            raise CorruptIndex("an entry points behind the end of the log")
        return index


def _check_growing(column: array[int], *, strictly: bool) -> None:
    """Sorting what is sorted is one pass in C, far cheaper than a loop that compares."""
    values = column.tolist()
    if values and values[0] < 0:
        raise CorruptIndex("an entry is negative")
    if values != sorted(values) or (strictly and len(set(values)) != len(values)):
        raise CorruptIndex("entries do not grow")
