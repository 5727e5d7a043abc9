"""One process per data directory, Apache Kafka included.

Kafka locks `.lock` through Java, which is a POSIX record lock. Taking the same kind keeps the two
apart as well, and the kernel tells who holds it. POSIX locks are blind within a process, so a
table of our own keeps two nodes of one process apart.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

_FLOCK = struct.Struct("@hhqqi4x")  # type, whence, start, length, pid: Linux on 64 bits
_held: dict[str, DirectoryLock] = {}


class DirectoryInUse(OSError):
    """Another process, whose pid is given where the kernel knows it, uses the directory."""

    def __init__(self, directory: str, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            errno.EBUSY,
            f"{directory} is in use by {who}: stop it, or choose another data directory",
        )
        self.directory = directory
        self.pid = pid


class DirectoryLock:
    """Holds `directory`/.lock until `release`, or until the process ends, however it ends."""

    __slots__ = ("_fd", "_key")

    def __init__(self, directory: str) -> None:
        self._key = os.path.realpath(directory)
        if self._key in _held:
            raise DirectoryInUse(directory, os.getpid())
        fd = os.open(os.path.join(directory, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _holder(fd)
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise DirectoryInUse(directory, pid) from None
            raise
        self._fd = fd
        _held[self._key] = self

    def fileno(self) -> int:
        """A descriptor on the directory's file system, as old as the lock."""
        return self._fd

    def release(self) -> None:
        """Let others in. The file stays, as Kafka's does."""
        if _held.get(self._key) is self:
            del _held[self._key]
            os.close(self._fd)


def _holder(fd: int) -> int | None:
    wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, wanted)
    except OSError:
        return None
    pid: int = _FLOCK.unpack(answer)[4]
    return pid if pid > 0 else None
