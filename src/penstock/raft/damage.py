"""Telling a torn end from a damaged middle.

A crash may cut the last batches of a log short, and recovery drops them: nothing there was ever
acknowledged. Bytes that changed in the middle are another matter. What follows them was committed,
and dropping it would take topics away without a word. So the metadata log is compared with what
recovery left of it: if whole batches were cut off, they are put back and the node refuses to start.

Power loss can leave the same picture: two batches that were never synced, of which the later one
reached the disk. But what it left out was never written, so it reads as zeros, and rot does not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.records.batch import (
    HEAD_SIZE,
    MAGIC,
    MAGIC_OFFSET,
    PREFIX_SIZE,
    crc_of,
    read_head,
)
from penstock.storage.names import LOG

if TYPE_CHECKING:
    from penstock.platform.disk import Disk

GUARDED_BYTES_MAX = 64 << 20
"""Snapshots keep the log far below this; a larger one is not held in memory to be compared."""

_NEVER_WRITTEN = bytes(64)
"""More zeros than any record holds in a row."""


class DamagedLog(ValueError):
    """The metadata log has changed in its middle: committed records stand behind the damage."""


class Guard:
    """The log's bytes as they were before recovery looked at them."""

    __slots__ = ("_before", "_disk")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        paths = [
            os.path.join(directory, name) for name in disk.listdir(directory) if name.endswith(LOG)
        ]
        if sum(disk.size_of(path) for path in paths) > GUARDED_BYTES_MAX:
            paths = []
        self._before = {path: disk.read_bytes(path) for path in sorted(paths)}

    def check(self, end: int) -> None:
        """DamagedLog if recovery, which ended the log at offset `end`, cut off whole batches."""
        for path, data in self._before.items():
            kept = self._disk.size_of(path) if self._disk.exists(path) else 0
            if kept >= len(data):
                continue
            intact = whole_batch_after(data, kept)
            if intact is None or _NEVER_WRITTEN in data[kept:intact]:
                continue
            offset = read_head(data, intact).base_offset
            self._restore()
            raise DamagedLog(
                f"{path} is damaged at byte {kept}, offset {end}, "
                f"and committed records follow from offset {offset} on. Restore the file from a "
                "copy or another voter; or, to go on without all that follows, cut it there "
                f"(truncate -s {kept})."
            )

    def _restore(self) -> None:
        for path, data in self._before.items():
            self._disk.write_atomic(path, data)


def whole_batch_after(data: bytes, at: int) -> int | None:
    """Where behind `at` a valid batch begins, if one does."""
    view = memoryview(data)
    position = at + 1
    while True:
        magic_at = data.find(MAGIC, position + MAGIC_OFFSET)
        position = magic_at - MAGIC_OFFSET
        if magic_at < 0 or position + HEAD_SIZE > len(data):
            return None
        head = read_head(view, position)
        end = position + PREFIX_SIZE + head.length
        if (
            HEAD_SIZE <= end - position <= len(data) - position
            and min(head.base_offset, head.leader_epoch) >= 0
            and crc_of(view, position, end) == head.crc
        ):
            return position
        position += 1
