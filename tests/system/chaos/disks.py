"""Disks of a node that can be full, fail, or lose power.

A disk is an ext4 file system in an image of its own, mounted over a loop device: what was not
synced when it is told to shut down is gone for good, and everything that a process still asks of it
fails with EIO. That is a power cut, or a broken disk, without harm to anything else. Where nobody
may mount, a plain folder stands in, which can do none of this.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SIZE = "512M"
_SHUTDOWN = 0x8004587D
_WITHOUT_FLUSHING = struct.pack("I", 2)
_FILLER = "filler"


class Folder:
    """A directory like any other."""

    breakable = False

    def __init__(self, where: Path) -> None:
        self.path = where
        where.mkdir(parents=True, exist_ok=True)

    def replace(self) -> None:
        """Put an empty one in its place."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)

    def close(self) -> None:
        """Nothing holds it."""


class Image(Folder):
    """A file system of its own."""

    breakable = True

    def __init__(self, where: Path) -> None:
        super().__init__(where)
        self._image = where.with_suffix(".img")
        self._make()
        self._mount()

    def fill(self) -> None:
        """Leave no byte free."""
        filler = os.open(self.path / _FILLER, os.O_CREAT | os.O_WRONLY)
        try:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):  # until it is full
                    while True:
                        end = os.fstat(filler).st_size
                        os.posix_fallocate(filler, end, size)
        finally:
            os.close(filler)

    def free(self) -> None:
        """Make room again."""
        (self.path / _FILLER).unlink()

    def fail(self) -> None:
        """Lose what was not synced, and refuse everything from now on."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, _SHUTDOWN, _WITHOUT_FLUSHING)
        finally:
            os.close(handle)

    def remount(self) -> None:
        """Come back with what was synced. Nobody may have a file open."""
        self._unmount()
        self._mount()

    def replace(self) -> None:
        """Put a new, empty disk in its place."""
        self._unmount()
        self._make()
        self._mount()

    def close(self) -> None:
        self._unmount("-l")
        self._image.unlink()

    def _make(self) -> None:
        self._image.unlink(missing_ok=True)
        _run("truncate", "-s", SIZE, str(self._image))
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))

    def _mount(self) -> None:
        _run("mount", "-o", "loop,noatime", str(self._image), str(self.path))
        lost = self.path / "lost+found"  # what a node would take for a partition of an odd name
        if lost.exists():
            lost.rmdir()

    def _unmount(self, *options: str) -> None:
        _run("umount", *options, str(self.path))


@cache
def why_no_images() -> str | None:
    """Why this machine has no disks that can be broken; None if it has."""
    if os.geteuid() != 0:
        return "not running as root, who alone may mount disks"
    where = Path(tempfile.mkdtemp(prefix="penstock-disk-"))
    try:
        Image(where / "disk").close()
    except OSError as problem:
        return f"no disk can be mounted here: {problem}"
    finally:
        shutil.rmtree(where)
    return None


def make_disk(where: Path) -> Folder:
    """The best disk that this machine allows."""
    return Image(where) if why_no_images() is None else Folder(where)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
