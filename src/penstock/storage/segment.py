"""A segment: one `.log` file of batches in offset order, and its indexes.

The last segment of a log is active and takes appends; the others are sealed. Index entries of the
active one live in memory and reach their files when it is sealed or closed: after a crash it is
scanned anyway. Sealed ones read their indexes when somebody looks something up.

Segments belong to the event loop's thread. A worker that reads one (compaction) does so within
`with segment.file.pinned()`, which keeps the descriptor from being taken back under its hands.

An index is believed only where the log bears it out: the batch an entry points at is looked at
before it is used, so that a rotten index costs a rebuild and never a wrong answer.
"""

from __future__ import annotations

import errno
import logging
import struct
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from penstock.platform.disk import Disk, File
from penstock.records.batch import (
    HEAD_SIZE,
    MAGIC,
    PREFIX_SIZE,
    BatchHead,
    Fields,
    read_head,
)
from penstock.storage import names
from penstock.storage.index import CorruptIndex, SegmentIndex
from penstock.storage.log_config import LogConfig

logger = logging.getLogger(__name__)

RELATIVE_OFFSET_MAX = 2**31 - 1
UNKNOWN = -2  # below every timestamp, -1 included: "ask the slow path"
PROBE = 8192  # covers the usual distance of two index entries with one read
CHUNK = 1 << 20  # for passing over a whole segment

_PLACE = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_PLACE_SIZE = _PLACE.size
LENGTH_MIN = HEAD_SIZE - 12

base_of = attrgetter("base")
"""For bisecting a list of segments by offset."""


class CorruptSegment(OSError):
    """Bytes where a batch should be. One segment is rotten, which says nothing of the disk."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(errno.EBADMSG, f"no batch at {position}: {why}", path)
        self.position = position


class Segment:
    """One segment of a log, named after the first offset it may hold."""

    __slots__ = (
        "_index",
        "base",
        "created",
        "directory",
        "disk",
        "file",
        "mark",
        "max_timestamp",
        "max_timestamp_offset",
        "roll_at",
        "unindexed",
    )

    def __init__(self, disk: Disk, directory: str, base: int, file: File, created: int) -> None:
        self.disk = disk
        self.directory = directory
        self.base = base
        self.file = file
        self.created = created
        self.mark = ""  # behind the suffix of each file name: `.cleaned`, `.swap` or `.deleted`
        self.unindexed = 0  # bytes since the last index entry
        self.max_timestamp = UNKNOWN if file.size else -1
        self.max_timestamp_offset = base
        self.roll_at = UNKNOWN  # a batch with a later timestamp belongs into the next segment
        self._index = SegmentIndex() if not file.size else None

    @classmethod
    def create(cls, disk: Disk, directory: str, base: int, now: int, mark: str = "") -> Segment:
        """An empty segment; what a crash left under its name is overwritten."""
        file = disk.open(f"{directory}/{base:020d}{names.LOG}{mark}", create=True)
        if file.size:
            file.truncate(0)
        segment = cls(disk, directory, base, file, now)
        segment.mark = mark
        return segment

    @property
    def size(self) -> int:
        return self.file.size

    def path(self, suffix: str) -> str:
        """The path of one of the segment's files."""
        return f"{self.directory}/{self.base:020d}{suffix}{self.mark}"

    def move_to(self, directory: str) -> None:
        """Its directory has another name now."""
        self.directory = directory
        self.file.path = self.path(names.LOG)

    def remark(self, mark: str, *, snapshot: bool = False) -> list[str]:
        """Rename all files, from one mark behind their names to another; answers the new paths.

        The log goes first: without it the rest is debris, whatever a crash leaves of it. The
        producers' snapshot at the segment's base goes along only if asked for.
        """
        before, self.mark = self.mark, mark  # a sync under way that misses a file asks why
        renamed = [self.path(names.LOG)]
        try:
            self.file.rename(renamed[0])
        except OSError:
            self.mark = before
            raise
        others = (names.INDEX, names.TIME_INDEX, names.TXN_INDEX, names.SNAPSHOT)
        for suffix in others if snapshot else others[:3]:
            old, new = f"{self.directory}/{self.base:020d}{suffix}{before}", self.path(suffix)
            if self.disk.exists(old):
                self.disk.rename(old, new)
                renamed.append(new)
        return renamed

    # ── the index ───────────────────────────────────────────────────────────────────────────────

    @property
    def index(self) -> SegmentIndex:
        """Both indexes, read from disk if they are not in memory, rebuilt if they are rotten."""
        return self._index if self._index is not None else self._load_index()

    @property
    def index_loaded(self) -> bool:
        return self._index is not None

    def _load_index(self) -> SegmentIndex:
        try:
            offsets = self.disk.read_bytes(self.path(names.INDEX))
            times = self.disk.read_bytes(self.path(names.TIME_INDEX))
            index = SegmentIndex.parse(offsets, times, self.size)
        except (FileNotFoundError, CorruptIndex) as error:
            logger.warning("rebuilding the index of %s: %s", self.file.path, error)
            index = self.rebuild_index()
        self._index = index
        return index

    def use_index(self, index: SegmentIndex) -> None:
        """Take an index that was built elsewhere, by a scan."""
        self._index = index

    def drop_index(self) -> None:
        """Free the memory of a sealed segment's index; the files have it."""
        if self._index is not None:
            self.write_index()
            self._index = None

    def rebuild_index(self, interval: int = 4096) -> SegmentIndex:
        """The index as the batches themselves say it, written to the files.

        Where the segment itself is rotten the index ends: what lies behind cannot be found, but
        what lies before is served.
        """
        index = SegmentIndex()
        last_entry = 0
        self.max_timestamp, self.max_timestamp_offset = -1, self.base
        try:
            for position, head in self.heads(0):
                last = head.base_offset + head.last_offset_delta
                self.note_timestamp(head.max_timestamp, last)
                if position - last_entry > interval:
                    index.add(last - self.base, position)
                    index.add_time(self.max_timestamp, self.max_timestamp_offset - self.base)
                    last_entry = position
        except CorruptSegment as error:
            logger.error("%s", error)
        index.add_time(self.max_timestamp, self.max_timestamp_offset - self.base)
        self._index = index
        self.write_index()
        return index

    def write_index(self) -> None:
        """Bring the index files up to what is in memory. They are created if they are missing."""
        index = self._index
        if index is None:
            return
        start, end = index.offsets_written, len(index.offsets)
        if start < end:
            start = max(start, 0)
            self.disk.write_at(self.path(names.INDEX), index.offset_bytes(start, end), start * 8)
            index.offsets_written = end
        start, end = index.times_written, len(index.times)
        if start < end:
            start = max(start, 0)
            self.disk.write_at(
                self.path(names.TIME_INDEX), index.time_bytes(start, end), start * 12
            )
            index.times_written = end

    # ── appending ───────────────────────────────────────────────────────────────────────────────

    def append(self, data: memoryview | bytes, last: int, timestamp: int, config: LogConfig) -> int:
        """Write one batch that ends with offset `last`; answers its position."""
        position = self.file.append(data)
        if timestamp > self.max_timestamp:
            self.note_timestamp(timestamp, last)
        if self.unindexed > config.index_interval_bytes:
            index = self.index
            index.add(last - self.base, position)
            index.add_time(self.max_timestamp, self.max_timestamp_offset - self.base)
            self.unindexed = 0
            if index.is_full(config.segment_index_bytes):
                self.roll_at = UNKNOWN
        self.unindexed += len(data)
        return position

    def append_run(self, parts: list[memoryview], heads: list[Fields], config: LogConfig) -> int:
        """Write batches with these heads, whose bytes are `parts`, in one go; answers where the
        last one begins."""
        position = last_position = self.file.append_all(parts)
        base, interval = self.base, config.index_interval_bytes
        unindexed = self.unindexed
        for offset, length, _, _, _, _, delta, _, timestamp, _, _, _, _ in heads:
            last = offset + delta
            if timestamp > self.max_timestamp:
                self.note_timestamp(timestamp, last)
            if unindexed > interval:
                index = self.index
                index.add(last - base, position)
                index.add_time(self.max_timestamp, self.max_timestamp_offset - base)
                unindexed = 0
            size = length + PREFIX_SIZE
            unindexed += size
            last_position = position
            position += size
        self.unindexed = unindexed
        if self._index is not None and self._index.is_full(config.segment_index_bytes):
            self.roll_at = UNKNOWN
        return last_position

    def note_timestamp(self, timestamp: int, last: int) -> None:
        """Keep the youngest timestamp, and the last offset of the first batch that has it."""
        if self.max_timestamp == UNKNOWN:
            self.load_max_timestamp()
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last

    def seal(self) -> None:
        """No more appends for now: the last time entry is made and the files are written."""
        self.file.trim()  # a sealed segment is trusted to the end of its file
        if self._index is None and self.max_timestamp == UNKNOWN:
            return  # nothing was appended since the files were written
        if self.max_timestamp == UNKNOWN:
            self.load_max_timestamp()
        self.index.add_time(self.max_timestamp, self.max_timestamp_offset - self.base)
        self.write_index()

    def load_max_timestamp(self) -> None:
        """Learn the youngest timestamp: the last time entry, and whatever came after it.

        An index that is read for this alone is not kept: retention asks every log there is.
        """
        if self.max_timestamp != UNKNOWN:
            return
        was_loaded = self.index_loaded
        index = self.index
        if self.max_timestamp == UNKNOWN:  # else the index was rebuilt, which found it
            self.max_timestamp, self.max_timestamp_offset = -1, self.base
            if index.times:
                self.max_timestamp = index.times[-1]
                self.max_timestamp_offset = self.base + index.time_offsets[-1]
            relative = self.max_timestamp_offset - self.base
            for _, head in self.heads(index.position_before(relative)):
                self.note_timestamp(head.max_timestamp, head.base_offset + head.last_offset_delta)
        if not was_loaded:
            self.drop_index()

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def position_of(self, offset: int) -> int:
        """Where the first batch begins whose last offset is `offset` or later; the size if none."""
        index = self.index
        entry = index.floor(offset - self.base)
        if entry < 0:
            return self._walk(offset, 0)
        position = index.positions[entry]
        if self._offset_at(index, entry) is None:
            logger.warning("rebuilding the index of %s: it lies", self.file.path)
            position = self.rebuild_index().position_before(offset - self.base)
        return self._walk(offset, position)

    def boundary_before(self, position: int) -> tuple[int, int] | None:
        """Base offset and position of a batch that begins at `position` or little before it; None
        if the index knows of none."""
        index = self.index
        entry = bisect_right(index.positions, position) - 1
        offset = self._offset_at(index, entry) if entry >= 0 else None
        return None if offset is None else (offset, index.positions[entry])

    def _offset_at(self, index: SegmentIndex, entry: int) -> int | None:
        """The base offset of the batch that an entry names; None if no batch begins there, or it
        does not hold what the entry says."""
        data = self.file.pread(_PLACE_SIZE, index.positions[entry])
        if len(data) < _PLACE_SIZE:
            return None
        offset, length, magic, _ = _PLACE.unpack(data)
        before = index.offsets[entry - 1] if entry else -1
        if (
            magic == MAGIC
            and length >= LENGTH_MIN
            and before < offset - self.base <= index.offsets[entry]
        ):
            return int(offset)
        return None

    def _walk(self, offset: int, position: int) -> int:
        """`position_of`, batch by batch from a boundary at or before it."""
        size = self.file.size
        chunk = b""
        start = position  # where the chunk begins
        while position < size:
            at = position - start
            if at + _PLACE_SIZE > len(chunk):
                chunk = self.file.pread(PROBE, position)
                start, at = position, 0
                if len(chunk) < _PLACE_SIZE:
                    raise CorruptSegment(self.file.path, position, "the file ends within a head")
            base, length, magic, delta = _PLACE.unpack_from(chunk, at)
            if base + delta >= offset:
                return position
            if length < LENGTH_MIN or magic != MAGIC:
                raise CorruptSegment(self.file.path, position, f"length {length}, magic {magic}")
            position += length + 12
        return size

    def heads(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHead]]:
        """Position and head of each batch from a boundary on, without reading the records."""
        end = self.file.size if end is None else end
        chunk = b""
        start = position
        while position < end:
            at = position - start
            if at + HEAD_SIZE > len(chunk):
                # What lies far apart is probed, what lies close is read at once.
                chunk = self.file.pread(CHUNK if at < CHUNK // 8 else PROBE, position)
                start, at = position, 0
                if len(chunk) < HEAD_SIZE:
                    raise CorruptSegment(self.file.path, position, "the file ends within a head")
            head = read_head(chunk, at)
            if head.length < LENGTH_MIN or head.magic != MAGIC:
                raise CorruptSegment(
                    self.file.path, position, f"length {head.length}, magic {head.magic}"
                )
            if position + head.length + 12 > end:
                raise CorruptSegment(self.file.path, position, "the file ends within a batch")
            yield position, head
            position += head.length + 12

    def batches(self, position: int, end: int) -> Iterator[tuple[BatchHead, memoryview]]:
        """Each whole batch in [position, end), from a boundary on."""
        while position < end:
            chunk = memoryview(self.file.pread(min(CHUNK, end - position), position))
            at = 0
            while at + HEAD_SIZE <= len(chunk):
                head = read_head(chunk, at)
                if head.length < LENGTH_MIN or head.magic != MAGIC:
                    raise CorruptSegment(self.file.path, position + at, f"length {head.length}")
                after = at + head.length + 12
                if after > len(chunk):
                    break
                yield head, chunk[at:after]
                at = after
            if at == 0:  # one batch is larger than the chunk
                if len(chunk) < HEAD_SIZE:
                    raise CorruptSegment(self.file.path, position, "the file ends within a head")
                head = read_head(chunk)
                whole = self.file.pread(head.length + 12, position)
                if len(whole) < head.length + 12:
                    raise CorruptSegment(self.file.path, position, "the file ends within a batch")
                yield head, memoryview(whole)
                at = len(whole)
            position += at

    def first_timestamp(self) -> int:
        """The max timestamp of the first batch, from which rolling by time counts; -1 if none."""
        data = self.file.pread(HEAD_SIZE, 0) if self.file.size else b""
        return read_head(data).max_timestamp if len(data) == HEAD_SIZE else -1

    def read_end(self) -> int:
        """The offset after the last batch, found from the last index entry on."""
        if not self.file.size:
            return self.base
        end = self.base
        start = 0
        if self.file.size > PROBE:  # below that, one read finds it without an index
            index = self.index
            if index.offsets and self._offset_at(index, len(index.offsets) - 1) is not None:
                start = index.positions[-1]
        for _, head in self.heads(start):
            end = head.base_offset + head.last_offset_delta + 1
        return end

    # ── cutting and leaving ─────────────────────────────────────────────────────────────────────

    def truncate(self, offset: int, now: int) -> None:
        """Cut off `offset` and all behind it, durably.

        The cut lies at the recovery point, so that no later sync need look at this segment again:
        an unsynced cut would bring back what was cut, under a segment that begins in its place.
        """
        position = self.position_of(offset)
        index = self.index
        index.truncate(offset - self.base)
        self.file.truncate(position)
        self.file.sync()
        if index.offsets_written >= 0:
            self.disk.write_at(self.path(names.INDEX), b"", index.offsets_written * 8)
        if index.times_written >= 0:
            self.disk.write_at(self.path(names.TIME_INDEX), b"", index.times_written * 12)
        self.unindexed = 0
        self.max_timestamp = UNKNOWN if position else -1
        self.max_timestamp_offset = self.base
        self.roll_at = UNKNOWN
        if not position:
            self.created = now

    def close(self) -> None:
        self.file.close()
