"""How far growing files have been read: through renames, truncation and half-written lines.

A file is known by its folder and inode, so that a log which is renamed when it is full is read to
its end under its new name, and by a checksum of its first bytes, so that an inode which the file
system used again, or a file that was cut and written anew, is not mistaken for what it was. A line
is taken when its newline is there.

Positions are plain values that go into Spark's checkpoint: a batch is the bytes between two of
them, the same ones however often it is read.
"""

from __future__ import annotations

import glob
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import IO

from penstock.pipeline.sources.lines import BLOCK_BYTES, LINE_BYTES_MAX, LineTooLong

HEAD_BYTES = 512
SPLIT_BYTES = 16 << 20
"""A task reads about so much."""

PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip")
"""Rotation packs what was read before under its plain name."""


@dataclass(frozen=True, slots=True)
class Tail:
    """One file, and where the part of it begins that was not taken yet."""

    path: str
    """What it was called when it was last looked at."""
    inode: int
    at: int = 0
    """Bytes that were taken: always up to a newline."""
    lines: int = 0
    """Lines that were taken."""
    round: int = 0
    """How often it began anew."""
    head_bytes: int = 0
    head: int = 0
    """The checksum of its first `head_bytes` bytes."""

    @property
    def key(self) -> str:
        return f"{os.path.dirname(self.path)}#{self.inode}"


Positions = Mapping[str, Tail]


@dataclass(frozen=True, slots=True)
class Range:
    """Whole lines of a file, from `start` to `end`."""

    tail: Tail
    start: int
    end: int
    first_line: int

    @property
    def bytes(self) -> int:
        return self.end - self.start


class Lost(Exception):
    """Lines that were about to be read are not there any more."""


def load(offset: Mapping[str, object]) -> dict[str, Tail]:
    """Positions, as they stand in the checkpoint."""
    files = offset.get("files", {})
    assert isinstance(files, dict)
    return {key: Tail(**each) for key, each in files.items()}


def dump(positions: Positions) -> dict[str, object]:
    """Positions, for the checkpoint."""
    return {"files": {key: asdict(each) for key, each in positions.items()}}


def advance(pattern: str, known: Positions, bytes_max: int | None) -> dict[str, Tail]:
    """The positions after the next batch: whole lines, of the oldest files first.

    A batch is about `bytes_max` at most, but for a single line that is longer. Files that are gone
    are forgotten.
    """
    reached: dict[str, Tail] = {}
    left = bytes_max
    for path, stat in _look(pattern, known):
        fresh = Tail(path, stat.st_ino)
        before = known.get(fresh.key, fresh)
        # Only a batch that is empty so far may go beyond its limit, for a single long line.
        tail = _advance_one(path, before, left, forced=left == bytes_max)
        if left is not None and tail.round == before.round:
            left -= tail.at - before.at
        elif left is not None:
            left -= tail.at
        reached[tail.key] = tail
    return reached


def _advance_one(path: str, before: Tail, bytes_max: int | None, forced: bool) -> Tail:
    tail = replace(before, path=path)
    try:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            if stat.st_ino != tail.inode:
                return before  # renamed this very moment: the next look finds both
            if stat.st_size < tail.at or not _same_head(file, tail):
                tail = Tail(path, stat.st_ino, round=tail.round + 1)
            if stat.st_size == tail.at or (bytes_max is not None and bytes_max <= 0):
                return tail
            end, lines = _last_newline(file, tail, stat.st_size, bytes_max, forced)
            return _with_head(file, replace(tail, at=end, lines=tail.lines + lines))
    except (FileNotFoundError, PermissionError):
        return before


def _look(pattern: str, known: Positions) -> list[tuple[str, os.stat_result]]:
    """The files that match, and those that did and were renamed; the oldest first."""
    found: dict[tuple[str, int], tuple[str, os.stat_result]] = {}
    if os.path.isdir(pattern):
        pattern = os.path.join(pattern, "*")
    for path in glob.glob(pattern, recursive=True):
        if not path.endswith(PACKED):
            _note(found, os.path.realpath(path))
    missing = {tail.inode for tail in known.values() if _identity(tail) not in found}
    folders = {os.path.dirname(tail.path) for tail in known.values() if tail.inode in missing}
    for folder in folders:
        for each in _entries(folder):
            if each.inode() in missing:
                _note(found, each.path)
    return sorted(found.values(), key=lambda each: (each[1].st_mtime_ns, each[0]))


def _identity(tail: Tail) -> tuple[str, int]:
    return os.path.dirname(tail.path), tail.inode


def _note(found: dict[tuple[str, int], tuple[str, os.stat_result]], path: str) -> None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return
    if os.path.isfile(path):
        found.setdefault((os.path.dirname(path), stat.st_ino), (path, stat))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _last_newline(
    file: IO[bytes], tail: Tail, size: int, bytes_max: int | None, forced: bool = True
) -> tuple[int, int]:
    """Where the last whole line within the limit ends, and how many lines there are."""
    end, lines, at = tail.at, 0, tail.at
    limit = size if bytes_max is None else min(size, at + bytes_max)
    file.seek(at)
    while at < size and (at < limit or (forced and end == tail.at)):
        wanted = limit - at if at < limit else size - at
        block = file.read(min(BLOCK_BYTES, wanted))
        if not block:
            break
        if cut := _cut(block, at >= limit):
            lines += block.count(b"\n", 0, cut)
            end = at + cut
        at += len(block)
        if at - end > LINE_BYTES_MAX:
            raise LineTooLong(tail.path, tail.lines + lines + 1)
    return end, lines


def _cut(block: bytes, beyond: bool) -> int:
    """Where the last line of a block ends; beyond the limit, the first."""
    return (block.find(b"\n") if beyond else block.rfind(b"\n")) + 1


def _same_head(file: IO[bytes], tail: Tail) -> bool:
    file.seek(0)
    return zlib.crc32(file.read(tail.head_bytes)) == tail.head


def _with_head(file: IO[bytes], tail: Tail) -> Tail:
    if tail.head_bytes == HEAD_BYTES:
        return tail
    file.seek(0)
    head = file.read(min(HEAD_BYTES, tail.at))
    return replace(tail, head_bytes=len(head), head=zlib.crc32(head))


def ranges(start: Positions, end: Positions) -> Iterator[Range]:
    """What lies between two positions, in pieces for tasks."""
    for key, tail in end.items():
        before = start.get(key)
        if before is None or before.round != tail.round:
            before = replace(tail, at=0, lines=0)
        if before.at < tail.at:
            yield from _split(Range(tail, before.at, tail.at, before.lines + 1))


def pack(pieces: Iterator[Range]) -> list[list[Range]]:
    """Small pieces together, so that a thousand small files are not a thousand tasks."""
    packs: list[list[Range]] = []
    room = 0
    for piece in pieces:
        if piece.bytes > room:
            packs.append([])
            room = SPLIT_BYTES
        packs[-1].append(piece)
        room -= piece.bytes
    return packs


def _split(whole: Range) -> Iterator[Range]:
    if whole.bytes <= SPLIT_BYTES:
        yield whole
        return
    at, line = whole.start, whole.first_line
    with open_tail(whole.tail) as file:
        while whole.end - at > SPLIT_BYTES:
            piece = replace(whole.tail, at=at, lines=line - 1)
            end, lines = _last_newline(file, piece, whole.end, SPLIT_BYTES)
            if end == at:
                break
            yield Range(whole.tail, at, end, line)
            at, line = end, line + lines
    if at < whole.end:
        yield Range(whole.tail, at, whole.end, line)


def open_tail(tail: Tail) -> IO[bytes]:
    """The file, whatever it is called by now; Lost if its taken part is not there any more."""
    names = [tail.path]
    names += [
        each.path for each in _entries(os.path.dirname(tail.path)) if each.inode() == tail.inode
    ]
    for name in names:
        try:
            file = open(name, "rb")  # noqa: SIM115
        except FileNotFoundError:
            continue
        stat = os.fstat(file.fileno())
        if stat.st_ino == tail.inode and stat.st_size >= tail.at and _same_head(file, tail):
            return file
        file.close()
    raise Lost(f"{tail.path} was removed, or cut and written anew, before all of it was delivered")
