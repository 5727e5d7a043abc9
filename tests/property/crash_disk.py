"""A disk that knows what a power cut would leave of it.

It works on real files, but takes note of what was synced: the content of a file at its last sync,
and the names of a directory since its last sync. `crash` builds from that a directory as it might
look after the power came back: synced bytes are there, unsynced ones are there, in part, or not,
as chance has it; the names are those of some moment since the sync, for file systems keep a
journal of names, but each directory's is of a moment of its own.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from penstock.platform.disk import Buffer, Disk, File


class CrashDisk(Disk):
    """Remembers what is durable. Nothing is really synced: that costs time and proves nothing."""

    def __init__(self, root: Path) -> None:
        super().__init__(open_files_max=6)  # so few that descriptors are taken back all the time
        self.root = str(root)
        self.contents: dict[int, bytes] = {}
        self.names: dict[str, list[dict[str, int]]] = {}  # each change since the last sync
        self._kept_open: dict[int, int] = {}
        for directory, _, files in os.walk(root):  # what is there when the power comes is durable
            for name in files:
                self.sync_path(os.path.join(directory, name))
            self.sync_directory(directory)

    def sync_fd(self, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        self.contents[inode] = os.pread(fd, os.fstat(fd).st_size, 0)
        if inode not in self._kept_open:  # or the number would be given to another file
            self._kept_open[inode] = os.dup(fd)

    def sync_directory(self, path: str) -> None:
        self.names[path] = []
        self._note(path)

    def _note(self, path: str) -> None:
        listing = _listing(path)
        self.names.setdefault(path, [{}]).append(listing)
        for name, inode in listing.items():
            if inode not in self._kept_open:
                self._kept_open[inode] = os.open(os.path.join(path, name), os.O_RDONLY)

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        if create:
            self._note(os.path.dirname(path))
        return file

    def write_at(self, path: str, data: Buffer, position: int) -> None:
        super().write_at(path, data, position)
        self._note(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self._note(os.path.dirname(new))

    def remove(self, path: str) -> None:
        super().remove(path)
        self._note(os.path.dirname(path))

    def mkdir(self, path: str) -> None:
        super().mkdir(path)
        self._note(os.path.dirname(path))

    def sync_filesystem(self, fd: int) -> bool:
        return False

    def forget(self) -> None:
        """Close all descriptors."""
        for fd in self._kept_open.values():
            os.close(fd)
        self._kept_open.clear()
        for file in list(self._ring):
            self.give_back(file)

    def crash(self, target: Path, chance: random.Random) -> None:
        """Write to `target` what a power cut might leave of the root."""
        self._crash_directory(self.root, str(target), chance)

    def _crash_directory(self, source: str, target: str, chance: random.Random) -> None:
        os.makedirs(target)
        listing = chance.choice(self.names[source])
        for name, inode in sorted(listing.items()):
            path = os.path.join(source, name)
            if os.path.isdir(path):
                self._crash_directory(path, os.path.join(target, name), chance)
            else:
                Path(target, name).write_bytes(self._surviving_content(inode, chance))

    def _surviving_content(self, inode: int, chance: random.Random) -> bytes:
        durable = self.contents.get(inode, b"")
        fd = self._kept_open[inode]
        written = os.pread(fd, os.fstat(fd).st_size, 0)
        if not written.startswith(durable):  # it was cut, or written over
            return durable if chance.random() < 0.5 else written
        rest = bytearray(written[len(durable) :])
        del rest[chance.randint(0, len(rest)) :]
        if rest and chance.random() < 0.4:  # blocks that were allocated and never written
            hole = chance.randrange(len(rest))
            rest[hole:] = bytes(len(rest) - hole)
        if rest and chance.random() < 0.2:
            rest[chance.randrange(len(rest))] ^= 1 << chance.randrange(8)
        return durable + bytes(rest)


def _listing(path: str) -> dict[str, int]:
    with os.scandir(path) as entries:
        return {entry.name: entry.inode() for entry in entries}
