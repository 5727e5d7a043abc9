"""A piece of a segment, as a fetch response carries it."""

from __future__ import annotations

from penstock.platform.disk import File
from penstock.storage.segment import CorruptSegment


class LogSlice:
    """Bytes of a segment's file: whole batches, but the last may be cut where a limit fell.

    It stays readable while its segment waits to be removed (file.delete.delay.ms). It is a splice
    for the codec, which asks for `size` alone; the listener sends [position, position + size).
    """

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        """The bytes, waiting for the disk if they are cold."""
        return self.file.pread(self.size, self.position)

    def read_cached(self) -> bytes | None:
        """The bytes, or None if they are not all in the page cache: then read in a worker."""
        return self.file.pread_cached(self.size, self.position)

    def read_waiting(self) -> bytes:
        """The bytes, for a thread other than the event loop's."""
        return self.file.pread_waiting(self.size, self.position)

    def __repr__(self) -> str:
        return f"LogSlice({self.file.path!r}, {self.position}, {self.size})"


def cut_slice(file: File, position: int, size_max: int, whole_first: bool) -> LogSlice | None:
    """A slice that is cut at `size_max`, where the first batch goes whole or not at all."""
    first = 12 + int.from_bytes(file.pread(4, position + 8), "big")
    if first > file.size - position:
        raise CorruptSegment(file.path, position, f"a batch of {first} bytes passes the end")
    if first > size_max:
        return LogSlice(file, position, first) if whole_first else None
    return LogSlice(file, position, size_max)
