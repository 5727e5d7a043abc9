"""A log that grows on a bad disk: whatever fails, and however it ends, it holds what it took.

Blocks are set aside from a few kilobytes on, and now and then they are refused; appends end in the
middle; what they leave cannot always be taken back at once.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.platform import disk as disk_module
from penstock.platform.blocks import Blocks, set_aside
from penstock.platform.disk import Disk
from penstock.storage.context import LogContext
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.recovery import load_log
from tests.unit.storage.logs import NOW, PARTITION, TOPIC_ID, batch, contents, put

SEEDS = 60
CONFIG = LogConfig(segment_bytes=400 * 1024, index_interval_bytes=1024)
SIZES = (10, 200, 3_000, 17_000, 70_000)


class BadDisk:
    """What the system answers, by chance."""

    def __init__(self, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self._chance = chance
        self._room: int | None = None  # how much more it writes; None if all
        self._keeps = False  # what was written, though it should be cut off
        self._write, self._write_all = os.pwrite, os.pwritev
        self._cut = os.ftruncate
        monkeypatch.setattr(disk_module, "AHEAD_FROM", 64 * 1024)
        monkeypatch.setattr(disk_module, "AHEAD_MAX", 64 * 1024)
        monkeypatch.setattr(disk_module, "set_aside", self.set_aside)
        monkeypatch.setattr(disk_module, "_pwrite", self.write)
        monkeypatch.setattr(disk_module, "_pwritev", self.write_all)
        monkeypatch.setattr(os, "ftruncate", self.cut)

    @contextmanager
    def failing(self, size: int) -> Iterator[None]:
        """For an append of so many bytes, or more."""
        self._room = self._chance.choice((0, self._chance.randrange(size)))
        self._keeps = self._chance.random() < 0.4
        try:
            yield
        finally:
            self._room, self._keeps = None, False

    def set_aside(self, fd: int, begin: int, end: int) -> Blocks:
        said = self._chance.choices((None, Blocks.NEVER, Blocks.NOT_NOW), (14, 3, 3))[0]
        return set_aside(fd, begin, end) if said is None else said

    def write(self, fd: int, data: Any, position: int) -> int:
        if self._room is None:
            return self._write(fd, data, position)
        if not self._room:
            raise OSError(errno.ENOSPC, "no space left on device")
        part = memoryview(data)[: self._room]
        self._room -= len(part)
        return self._write(fd, part, position)

    def write_all(self, fd: int, parts: list[Any], position: int) -> int:
        if self._room is None:
            return self._write_all(fd, parts, position)
        return self.write(fd, b"".join(parts), position)

    def cut(self, fd: int, size: int) -> None:
        if self._keeps:
            raise OSError(errno.EIO, "input/output error")
        self._cut(fd, size)


def load(directory: Path, disk: Disk, *, clean: bool) -> Log:
    return load_log(
        LogContext(disk), PARTITION, TOPIC_ID, str(directory), CONFIG,
        clean=clean, recovery_point=0, now=NOW,
    )  # fmt: skip


def check(log: Log, expected: list[bytes]) -> None:
    assert contents(log) == expected
    served, offset = b"", 0
    while offset < log.end:
        found = log.read(offset, 1 << 20, log.end)
        assert found is not None
        served += found.read()
        offset += sum(each in found.read() for each in expected[offset:])
    assert served == b"".join(expected)
    for segment in log.segments[:-1]:
        # Nothing may stand behind what a sealed segment holds: it is trusted to its end.
        assert os.stat(segment.path(".log")).st_size == segment.size


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_log_holds_what_it_took_whatever_the_disk_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    bad = BadDisk(chance, monkeypatch)
    disk = Disk(open_files_max=chance.choice((2, 100)))
    log = load(tmp_path, disk, clean=True)
    expected: list[bytes] = []
    for _ in range(chance.randrange(10, 60)):
        what = chance.random()
        if what < 0.1:
            size = chance.choice((5_000, 80_000))
            with bad.failing(size), pytest.raises(OSError):
                put(log, batch(value=chance.randbytes(size)))
            if log.active.size and chance.random() < 0.5:
                log.roll(NOW)  # with what was torn right behind it
        elif what < 0.75:
            data = batch(value=chance.randbytes(chance.choice(SIZES)))
            put(log, data)
            expected.append(bytes(data))
        elif what < 0.8:
            log.active.file.trim()
        elif what < 0.85 and log.active.size:
            log.roll(NOW)
        elif what < 0.9:
            log.truncate_to(chance.randint(0, len(expected)), NOW)
            del expected[log.end :]
        elif what < 0.95:
            log.sync()
        else:
            clean = chance.random() < 0.5
            if clean:
                log.close()
            else:
                log.abandon()  # as a kill leaves it, but for the descriptors
            log = load(tmp_path, disk, clean=clean)
    check(log, expected)
    log.close()
    check(load(tmp_path, disk, clean=True), expected)
