"""The disk: files that hand their descriptors back, and names that change atomically.

`Disk` and `File` are the port and the real thing at once; a simulated disk overrides them.

**Descriptors.** A node keeps more files than it may have open. A `File` opens itself when it is
used, and `Disk` closes those that were not used lately (second chance). Who may do what:

- The thread that made the disk, the event loop's, uses files freely: descriptors are taken back
  on that thread only, so never under its own hands.
- Any other thread goes through `sync`, `pread_waiting` or `pinned`, which hold the descriptor.

**Order.** A file's bytes are durable after `sync`. A new or renamed name is durable after
`sync_directory` of the directory that holds it. `write_atomic` does both, in the order that
leaves either the old content or the new one behind, whole, wherever the power fails.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.platform.blocks import Blocks, set_aside
from penstock.platform.directory_lock import DirectoryLock

Buffer = bytes | bytearray | memoryview

OPEN_FILES_MAX = 8_000  # of 20,000, which leaves room for sockets and for what libraries open

AHEAD_FROM = 4 << 20
"""Files that grow past this have blocks set aside for what comes next. Small ones, of which there
may be thousands, do without."""

AHEAD_MAX = 4 << 20
"""How much at a time; never more than a quarter of what is there."""

_PARTS_MAX = 1024  # of one write, on every Linux
_NEVER = 1 << 63
_SPARE_MIN = 64 * 1024
"""Fewer bytes of blocks behind a file's content are not worth a write to its inode."""

_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)
_CANNOT_TELL = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)

_pread = os.pread
_pwrite = os.pwrite
_pwritev = os.pwritev


class File:
    """A file that is only ever appended to, cut at its end, or read.

    `size` is what was appended; bytes behind it, left by a write that failed, do not count and
    are overwritten by the next append.
    """

    __slots__ = (
        "_ahead", "_disk", "_excess", "_fd", "_left", "_pins", "_used", "closed", "path", "size",
    )  # fmt: skip

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self.closed = False
        self._disk = disk
        self._ahead = AHEAD_FROM  # an append that ends behind it has blocks set aside first
        # Whether there may be more on the disk than the content: blocks, or bytes of an append
        # that failed. A file that was there may have blocks that a crash left it.
        self._excess = size > AHEAD_FROM
        self._fd = -1
        self._left = -1  # the descriptor of a closed file, until the last who holds it is done
        self._pins = 0
        self._used = True

    def append(self, data: Buffer) -> int:
        """Write at the end and answer where; whole, or OSError and the file as it was."""
        fd = self._fd
        if fd < 0:
            fd = self._open()
        self._used = True
        position = self.size
        size = len(data)
        end = position + size
        try:
            if end > self._ahead:
                self._set_aside(fd, end)
            written = _pwrite(fd, data, position)
            if written < size:
                self._append_rest(fd, data, written, position)
        except OSError:
            self._cut_back(fd, position)
            raise
        self.size = end
        return position

    def append_all(self, parts: list[memoryview]) -> int:
        """`append`, of several pieces with one write."""
        if len(parts) == 1:
            return self.append(parts[0])
        if len(parts) >= _PARTS_MAX:
            return self.append(b"".join(parts))
        fd = self._fd
        if fd < 0:
            fd = self._open()
        self._used = True
        position = self.size
        size = sum(map(len, parts))
        end = position + size
        try:
            if end > self._ahead:
                self._set_aside(fd, end)
            written = _pwritev(fd, parts, position)
            if written < size:
                self._append_rest(fd, b"".join(parts), written, position)
        except OSError:
            self._cut_back(fd, position)
            raise
        self.size = end
        return position

    def _set_aside(self, fd: int, end: int) -> None:
        """Take blocks for an append that ends at `end`, and for some more behind it."""
        ahead = end + min(end // 4, AHEAD_MAX)
        self._excess = True
        self._ahead = _NEVER if set_aside(fd, self.size, ahead) is Blocks.NEVER else ahead

    @property
    def has_spare(self) -> bool:
        """Whether blocks were set aside that `trim` would give back."""
        return AHEAD_FROM < self._ahead < _NEVER

    def trim(self) -> None:
        """Nothing is appended for now: let the file end where its content does, and others have
        the blocks that were set aside."""
        if not self._excess:
            return
        if self._fd < 0:
            self._open()  # which closes another if need be: `pinned` alone never does
        with self.pinned() as fd:
            about = os.fstat(fd)
            # To cut off nothing would still make the file look as if it was written to just now.
            if about.st_size > self.size or about.st_blocks * 512 >= self.size + _SPARE_MIN:
                os.ftruncate(fd, self.size)
        self._has_no_excess()

    def _has_no_excess(self) -> None:
        self._excess = False
        if self._ahead != _NEVER:
            self._ahead = AHEAD_FROM

    def _append_rest(self, fd: int, data: Buffer, written: int, position: int) -> None:
        with memoryview(data) as view:
            while written < len(view):
                more = _pwrite(fd, view[written:], position + written)
                if more == 0:
                    raise OSError(errno.ENOSPC, "the file takes no more bytes", self.path)
                written += more

    def _cut_back(self, fd: int, position: int) -> None:
        try:
            os.ftruncate(fd, position)
        except OSError:
            # The error that brought us here says more. `size` hides the torn bytes, and no
            # segment is sealed before they are gone.
            self._excess = True
        else:
            self._has_no_excess()

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`, waiting for the disk if they are cold."""
        fd = self._fd
        if fd < 0:
            fd = self._open()
        self._used = True
        return _pread(fd, self._within(size, position), position)

    def pread_cached(self, size: int, position: int) -> bytes | None:
        """The bytes if the page cache holds all of them, None if reading would wait for a disk."""
        fd = self._fd
        if fd < 0:
            fd = self._open()
        self._used = True
        size = self._within(size, position)
        buffer = bytearray(size)
        try:
            count = os.preadv(fd, [buffer], position, _NO_WAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in _CANNOT_TELL:  # this file system never says, so nothing is cold
                return _pread(fd, size, position)
            raise
        return bytes(buffer) if count == size else None

    def pread_waiting(self, size: int, position: int) -> bytes:
        """`pread` for threads other than the event loop's."""
        with self.pinned() as fd:
            return _pread(fd, self._within(size, position), position)

    def _within(self, size: int, position: int) -> int:
        """How much of a read counts: what failed to be appended does not."""
        return max(0, min(size, self.size - position))

    def fileno(self) -> int:
        """A descriptor for immediate use on the event loop, as in `os.sendfile`. Do not keep it."""
        fd = self._fd
        if fd < 0:
            fd = self._open()
        self._used = True
        return fd

    @contextmanager
    def pinned(self) -> Iterator[int]:
        """A descriptor that stays open within the block, on any thread."""
        fd = self._disk.pin(self)
        try:
            yield fd
        finally:
            self._disk.unpin(self)

    def sync(self) -> None:
        """Block until the bytes are durable. On any thread."""
        disk = self._disk
        fd = disk.pin(self)
        try:
            disk.sync_fd(fd)
        finally:
            disk.unpin(self)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. On any thread: it must not be another file that is cut."""
        with self.pinned() as fd:
            os.ftruncate(fd, size)
        self.size = size
        self._has_no_excess()  # what was set aside is cut off as well

    def rename(self, path: str) -> None:
        """Give the file another name in the same directory; an open descriptor stays good."""
        self._disk.rename(self.path, path)
        self.path = path

    def release(self) -> None:
        """Hand the descriptor back; the next use opens the file again."""
        self._disk.give_back(self)

    def close(self) -> None:
        """Hand the descriptor back for good: every later use is an OSError."""
        self.closed = True
        self._disk.give_back(self)

    def _open(self) -> int:
        return self._disk.descriptor_of(self)


class Disk:
    """The machine's own disks. One per node; made on the thread of its event loop."""

    def __init__(self, open_files_max: int = OPEN_FILES_MAX) -> None:
        self.open_files_max = open_files_max
        self._owner = threading.get_ident()
        self._lock = threading.Lock()
        self._ring: deque[File] = deque()  # every file with a descriptor; the hand is at the left
        self._open_count = 0

    @property
    def open_files(self) -> int:
        """How many descriptors are open now."""
        return self._open_count

    def lock(self, directory: str) -> DirectoryLock:
        """Keep every other process out of a directory; DirectoryInUse if one is in it."""
        return DirectoryLock(directory)

    def adopt(self) -> None:
        """Make the calling thread the one that may use files freely."""
        self._owner = threading.get_ident()

    def open(self, path: str, *, create: bool = False) -> File:
        """The file at `path`, which is created empty if `create`, and must be there if not."""
        if not create:
            return File(self, path, os.stat(path).st_size)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        file = File(self, path, os.fstat(fd).st_size)
        with self._lock:
            self._take(file, fd)
        self._evict(file)
        return file

    def known(self, path: str, size: int) -> File:
        """The file at `path`, whose size the caller already knows: no system call until used."""
        return File(self, path, size)

    def descriptor_of(self, file: File) -> int:
        """Open `file` again after its descriptor was handed back."""
        with self._lock:
            fd = self._reopen(file)
        self._evict(file)
        return fd

    def pin(self, file: File) -> int:
        """Open `file` if need be and keep it so until `unpin`."""
        with self._lock:
            fd = self._reopen(file)
            file._pins += 1
            return fd

    def unpin(self, file: File) -> None:
        with self._lock:
            file._pins -= 1
            if file.closed and file._pins == 0:
                self._close(file)

    def give_back(self, file: File) -> None:
        """Close the descriptor of `file`, or leave that to whoever still holds it."""
        with self._lock:
            if file._pins == 0:
                self._close(file)
            elif file.closed and file._fd >= 0:
                # Nobody else gets it any more: it could be closed, and its number given to
                # another file, between looking at it and using it.
                file._left, file._fd = file._fd, -1

    def _reopen(self, file: File) -> int:
        if file._fd >= 0:
            return file._fd
        if file.closed:
            raise OSError(errno.EBADF, "the file was closed for good", file.path)
        fd = os.open(file.path, os.O_RDWR | os.O_CLOEXEC)
        self._take(file, fd)
        return fd

    def _take(self, file: File, fd: int) -> None:
        file._fd = fd
        file._used = True
        self._ring.append(file)
        self._open_count += 1

    def _close(self, file: File) -> None:
        fd = file._fd if file._fd >= 0 else file._left
        if fd >= 0:
            file._fd = file._left = -1  # stays in the ring, where the hand drops it as it comes by
            self._open_count -= 1
            os.close(fd)
            if len(self._ring) > 2 * self._open_count + 64:
                self._ring = deque(each for each in self._ring if each._fd >= 0)

    def _evict(self, wanted: File) -> None:
        """Take descriptors back until the bound holds; on the owner's thread alone (see above).

        All but that of `wanted`, which the caller is about to use. It need not be the newest:
        other threads open files too.
        """
        if self._open_count <= self.open_files_max or threading.get_ident() != self._owner:
            return
        with self._lock:
            for _ in range(2 * len(self._ring)):
                if self._open_count <= self.open_files_max:
                    return
                file = self._ring.popleft()
                if file._fd < 0:
                    continue
                if file._used or file._pins or file is wanted:
                    file._used = False
                    self._ring.append(file)
                else:
                    self._close(file)

    def sync_fd(self, fd: int) -> None:
        """Block until the bytes behind `fd` are durable."""
        os.fdatasync(fd)

    def read_bytes(self, path: str) -> bytes:
        """The whole content of a small file."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            return _pread(fd, size, 0) if size else b""
        finally:
            os.close(fd)

    def pread(self, path: str, size: int, position: int) -> bytes:
        """A part of a file that is seldom used: opens and closes it."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _pread(fd, size, position)
        finally:
            os.close(fd)

    def write_at(self, path: str, data: Buffer, position: int) -> None:
        """Make `data` the content of `path` from `position` to the end. Neither atomic nor synced:
        for files that can be rebuilt from others."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with memoryview(data) as view:
                written = 0
                while written < len(view):
                    written += _pwrite(fd, view[written:], position + written)
            os.ftruncate(fd, position + len(data))
        finally:
            os.close(fd)

    def write_atomic(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Replace `path` by `data`: after a crash it holds the old content or the new, whole.

        The bytes go to a second name and are synced before the rename, or the rename could become
        durable first and show an empty file; the directory is synced last, or the old name could
        come back after the caller has acted on the new one. With `sync=False` readers of this
        boot still never see a part, and a power cut may leave anything.
        """
        temporary = path + ".tmp"
        self.write_at(temporary, data, 0)
        if sync:
            self.sync_path(temporary)
        os.rename(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def sync_path(self, path: str) -> None:
        """Block until the bytes of the file at `path` are durable."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.sync_fd(fd)
        finally:
            os.close(fd)

    def sync_directory(self, path: str) -> None:
        """Block until the names in the directory are durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_filesystem(self, fd: int) -> bool:
        """Make everything durable on the file system that `fd` lies on, with one call.

        For thousands of files at once, where a sync of each costs a flush of the device. OSError
        if a write failed since `fd` was opened; False where the system has no such call.
        """
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "syncfs"):
            return False
        if libc.syncfs(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"syncfs: {os.strerror(code)}")
        return True

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone already is no error."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds; one that is gone already is no error."""
        import shutil  # brings compressors along, which a starting node does not need

        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def list_directories(self, path: str) -> list[str]:
        with os.scandir(path) as entries:
            return [each.name for each in entries if each.is_dir()]

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in wall-clock milliseconds."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def mkdir(self, path: str) -> None:
        """Make a directory and those above it; one that is there already is no error."""
        os.makedirs(path, exist_ok=True)

    def free_bytes(self, path: str) -> int:
        """What an unprivileged process may still write on this file system."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize
