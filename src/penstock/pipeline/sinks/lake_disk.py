"""The few things that a lake asks of a file system, each durable when it returns."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.ENOTSUP, errno.EPERM}


def sync_file(path: str) -> None:
    """What the file holds survives a power cut."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: str) -> None:
    """The names in the folder survive a power cut."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def make_folder(path: str) -> None:
    """Make a folder and those above it that are missing, and sync the names that are new."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        os.makedirs(each, exist_ok=True)
        sync_folder(os.path.dirname(each))


def write_new(path: str, content: Any) -> bool:
    """Write JSON under a name that is still free, whole or not at all; False if it is taken."""
    aside = f"{path}.{os.getpid()}.new"
    _write(aside, content)
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(aside)
    sync_folder(os.path.dirname(path))
    return True


def write_over(path: str, content: Any) -> None:
    """Write JSON in place of what was there, whole or not at all."""
    aside = f"{path}.{os.getpid()}.new"
    _write(aside, content)
    move(aside, path)


def read(path: str) -> Any:
    """The JSON of a file."""
    with open(path) as file:
        return json.load(file)


def move(old: str, new: str) -> None:
    """Rename, and sync the folder that got the name."""
    os.replace(old, new)
    sync_folder(os.path.dirname(new))


def remove(paths: Iterable[str]) -> None:
    """Remove files, of which some may be gone already, and sync their folders."""
    folders = set()
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        folders.add(os.path.dirname(path))
    for folder in folders:
        sync_folder(folder)


def remove_folder(path: str) -> None:
    """Remove a folder and all in it, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def exchange(one: str, other: str) -> bool:
    """Swap two folders in one step that no reader sees half of; False where this cannot be done."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        swap = libc.renameat2
    except AttributeError:
        return False
    paths = os.fsencode(one), os.fsencode(other)
    if swap(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
        for folder in {os.path.dirname(one), os.path.dirname(other)}:
            sync_folder(folder)
        return True
    failure = ctypes.get_errno()
    if failure in _NO_EXCHANGE:
        return False
    raise OSError(failure, os.strerror(failure), one, None, other)


@contextlib.contextmanager
def locked(path: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock that ends with the process; without waiting, says whether it was free."""
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def _write(path: str, content: Any) -> None:
    with open(path, "w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: str, how: int) -> None:
    descriptor = os.open(path, how)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
