"""A disk in memory that knows what a power cut would leave of it.

Each file remembers its content as of its last sync, and each directory its names: those of the
last sync and those of every moment since, for file systems keep a journal of names. `power_cut`
makes of that what might be found when the power is back: synced bytes are there; unsynced ones are
there, in part, torn or not, as chance has it; the names are those of one moment.

A process that is killed loses nothing: its bytes are with the operating system. What it still
tries to write after its death, `Disk` objects of its life refuse.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from penstock.platform.disk import Buffer, Disk, File


class Inode:
    """A file's bytes, whatever its name."""

    __slots__ = ("data", "durable", "modified_ms")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable: bytes | int = 0
        """What is synced: so many of the first bytes, or others if the file was cut since."""
        self.modified_ms = 0

    def protect(self, size: int) -> None:
        """The file is about to change from `size` on: keep what is durable."""
        if isinstance(self.durable, int) and size < self.durable:
            self.durable = bytes(self.data[: self.durable])

    def sync(self) -> None:
        self.durable = len(self.data)

    def after_power_cut(self, dice: random.Random) -> Inode:
        found = Inode()
        found.data = bytearray(self._surviving(dice))
        found.sync()
        return found

    def _surviving(self, dice: random.Random) -> bytes:
        durable = self.durable
        if isinstance(durable, bytes):  # it was cut, or written over, and that is not synced
            return durable if dice.random() < 0.5 else bytes(self.data)
        rest = bytearray(self.data[durable:])
        if not rest:
            return bytes(self.data)
        del rest[dice.randint(0, len(rest)) :]
        if rest and dice.random() < 0.4:  # blocks that were allocated and never written
            hole = dice.randrange(len(rest))
            rest[hole:] = bytes(len(rest) - hole)
        if rest and dice.random() < 0.2:
            rest[dice.randrange(len(rest))] ^= 1 << dice.randrange(8)
        return bytes(self.data[:durable]) + bytes(rest)


class Folder:
    """A directory: its names now, and at every moment since they were synced."""

    __slots__ = ("moments", "names")

    def __init__(self) -> None:
        self.names: dict[str, Inode | Folder] = {}
        self.moments: list[dict[str, Inode | Folder]] = [{}]

    def note(self) -> None:
        self.moments.append(dict(self.names))

    def sync(self) -> None:
        self.moments = [dict(self.names)]

    def after_power_cut(self, dice: random.Random) -> Folder:
        found = Folder()
        for name, entry in dice.choice(self.moments).items():
            found.names[name] = entry.after_power_cut(dice)
        found.sync()
        return found


ROOM = 1 << 40
"""Bytes on a disk that is never full."""


class Platter:
    """What a machine keeps on its disk, from one life of its process to the next."""

    def __init__(self, dice: random.Random) -> None:
        self.root = Folder()
        self.capacity = ROOM
        self.used = 0
        self.broken = False
        """Every write and every sync fails from now on."""
        self.fuse = 0
        """After how many writes and syncs the machine dies; 0: never."""
        self.on_fuse: Callable[[], bool] = lambda: False
        """Lets the machine die, and says whether it did."""
        self._dice = dice

    @property
    def well(self) -> bool:
        """Whether nothing is wrong with it, nor will be."""
        return not self.broken and not self.fuse and self.capacity == ROOM

    def mend(self) -> None:
        """Make it as good as new, with all that it holds."""
        self.broken = False
        self.fuse = 0
        self.capacity = ROOM

    def power_cut(self) -> None:
        """Only what is durable is sure to remain."""
        self.root = self.root.after_power_cut(self._dice)
        self.used = sum(len(each.data) for each in _files(self.root))

    def replace(self) -> None:
        """A new, empty disk."""
        self.root = Folder()
        self.used = 0
        self.mend()

    # -- finding ------------------------------------------------------------------------------

    def find(self, path: str) -> Inode | Folder | None:
        here: Inode | Folder | None = self.root
        for name in _parts(path):
            if not isinstance(here, Folder):
                return None
            here = here.names.get(name)
        return here

    def file(self, path: str) -> Inode:
        found = self.find(path)
        if not isinstance(found, Inode):
            _missing(path)
        return found

    def folder(self, path: str) -> Folder:
        found = self.find(path)
        if not isinstance(found, Folder):
            _missing(path)
        return found

    def make(self, path: str) -> Inode:
        """The file at `path`, created if it is not there."""
        folder = self.folder(os.path.dirname(path))
        name = os.path.basename(path)
        found = folder.names.get(name)
        if found is None:
            found = folder.names[name] = Inode()
            folder.note()
        assert isinstance(found, Inode), path
        return found

    def check_writable(self, more: int, path: str) -> None:
        """Before each write, with the bytes that it adds, and before each sync."""
        if self.fuse:
            self.fuse -= 1
            if not self.fuse and self.on_fuse():
                raise OSError(errno.EIO, "the machine died", path)
        if self.broken:
            raise OSError(errno.EIO, "the disk is broken", path)
        if more > 0 and self.used + more > self.capacity:
            raise OSError(errno.ENOSPC, "the disk is full", path)
        self.used += more


class SimulatedFile(File):
    """A file on a platter."""

    __slots__ = ("_inode", "_sim")

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode, size: int) -> None:
        super().__init__(disk, path, size)
        self._sim = disk
        self._inode = inode

    def append(self, data: Buffer) -> int:
        self._check()
        position = self.size
        inode, size = self._inode, len(data)
        self._sim.platter.check_writable(position + size - len(inode.data), self.path)
        inode.protect(position)
        inode.data[position:] = data
        self.size = position + size
        self._sim.touch(inode)
        return position

    def append_all(self, parts: list[memoryview]) -> int:
        return self.append(b"".join(parts))

    def trim(self) -> None:
        """On a platter nothing is set aside."""

    def pread(self, size: int, position: int) -> bytes:
        self._check()
        return bytes(self._inode.data[position : position + size])

    def pread_cached(self, size: int, position: int) -> bytes | None:
        return self.pread(size, position)

    def pread_waiting(self, size: int, position: int) -> bytes:
        return self.pread(size, position)

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "a simulated file has no descriptor", self.path)

    @contextmanager
    def pinned(self) -> Iterator[int]:
        self._check()
        yield -1

    def sync(self) -> None:
        self._check()
        self._sim.platter.check_writable(0, self.path)
        self._inode.sync()

    def truncate(self, size: int) -> None:
        self._check()
        self._sim.platter.check_writable(min(0, size - len(self._inode.data)), self.path)
        self._inode.protect(size)
        del self._inode.data[size:]
        self.size = size

    def release(self) -> None:
        """It has no descriptor to hand back."""

    def close(self) -> None:
        self.closed = True

    def _check(self) -> None:
        self._sim.check_alive()
        if self.closed:
            raise OSError(errno.EBADF, "the file was closed for good", self.path)


class SimulatedLock:
    """Processes of one machine come one after the other: nobody else could hold it."""

    def fileno(self) -> int:
        return -1

    def release(self) -> None:
        pass


class SimulatedDisk(Disk):
    """The disk port of one process: it is dead when the process is."""

    def __init__(self, platter: Platter, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.platter = platter
        self.alive = True
        self._now_ms = now_ms

    def check_alive(self) -> None:
        if not self.alive:
            raise OSError(errno.EIO, "the process that had this disk is dead")

    def touch(self, inode: Inode) -> None:
        inode.modified_ms = self._now_ms()

    def lock(self, directory: str) -> SimulatedLock:  # type: ignore[override]
        self.check_alive()
        self.platter.folder(directory)
        return SimulatedLock()

    def open(self, path: str, *, create: bool = False) -> File:
        self.check_alive()
        inode = self.platter.make(path) if create else self.platter.file(path)
        return SimulatedFile(self, path, inode, len(inode.data))

    def known(self, path: str, size: int) -> File:
        self.check_alive()
        return SimulatedFile(self, path, self.platter.file(path), size)

    def read_bytes(self, path: str) -> bytes:
        self.check_alive()
        return bytes(self.platter.file(path).data)

    def pread(self, path: str, size: int, position: int) -> bytes:
        self.check_alive()
        return bytes(self.platter.file(path).data[position : position + size])

    def write_at(self, path: str, data: Buffer, position: int) -> None:
        self.check_alive()
        inode = self.platter.make(path)
        self.platter.check_writable(position + len(data) - len(inode.data), path)
        inode.protect(position)
        inode.data.extend(bytes(max(0, position - len(inode.data))))
        inode.data[position:] = data
        self.touch(inode)

    def write_atomic(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        self.write_at(temporary, data, 0)
        if sync:
            self.sync_path(temporary)
        self.rename(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def sync_path(self, path: str) -> None:
        self.check_alive()
        self.platter.check_writable(0, path)
        self.platter.file(path).sync()

    def sync_directory(self, path: str) -> None:
        self.check_alive()
        self.platter.check_writable(0, path)
        self.platter.folder(path).sync()

    def sync_filesystem(self, fd: int) -> bool:  # noqa: ARG002
        return False

    def rename(self, old: str, new: str) -> None:
        self.check_alive()
        self.platter.check_writable(0, old)
        source = self.platter.folder(os.path.dirname(old))
        target = self.platter.folder(os.path.dirname(new))
        name = os.path.basename(old)
        if name not in source.names:
            _missing(old)
        target.names[os.path.basename(new)] = source.names.pop(name)
        for each in {id(source): source, id(target): target}.values():
            each.note()

    def remove(self, path: str) -> None:
        self.check_alive()
        folder = self.platter.folder(os.path.dirname(path))
        gone = folder.names.pop(os.path.basename(path), None)
        if gone is not None:
            self.platter.used -= sum(len(each.data) for each in _files(gone))
            folder.note()

    def remove_tree(self, path: str) -> None:
        if self.platter.find(path) is not None:
            self.remove(path)

    def listdir(self, path: str) -> list[str]:
        self.check_alive()
        return list(self.platter.folder(path).names)

    def list_directories(self, path: str) -> list[str]:
        self.check_alive()
        names = self.platter.folder(path).names
        return [name for name, entry in names.items() if isinstance(entry, Folder)]

    def exists(self, path: str) -> bool:
        self.check_alive()
        return self.platter.find(path) is not None

    def size_of(self, path: str) -> int:
        return len(self.platter.file(path).data)

    def modified_ms(self, path: str) -> int:
        return self.platter.file(path).modified_ms

    def mkdir(self, path: str) -> None:
        self.check_alive()
        here = self.platter.root
        for name in _parts(path):
            found = here.names.get(name)
            if found is None:
                found = here.names[name] = Folder()
                here.note()
            if not isinstance(found, Folder):
                raise FileExistsError(errno.EEXIST, "a file is in the way", path)
            here = found

    def free_bytes(self, path: str) -> int:  # noqa: ARG002
        return self.platter.capacity - self.platter.used

    def total_bytes(self, path: str) -> int:  # noqa: ARG002
        return self.platter.capacity


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _files(entry: Inode | Folder) -> Iterator[Inode]:
    if isinstance(entry, Inode):
        yield entry
    else:
        for each in entry.names.values():
            yield from _files(each)


def _missing(path: str) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, "no such file", path)
