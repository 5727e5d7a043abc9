"""A partition's log: batches in offset order, spread over segments.

Everything here runs on the event loop's thread, except `sync`, which blocks and belongs into a
worker. Appending is one write into the page cache and a few integers; reading answers slices of
files, not bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator

from penstock.model.ids import TopicPartition
from penstock.model.invariants import invariant
from penstock.records.batch import CONTROL, BatchHead, Fields, read_head
from penstock.storage import names
from penstock.storage.aborted import note_ahead, take_back, truncate_index
from penstock.storage.append_run import EPOCH_MAX, append_batches
from penstock.storage.append_run import CorruptBatch as CorruptBatch
from penstock.storage.context import LogContext
from penstock.storage.delay_index import DelayIndex
from penstock.storage.delay_snapshots import (
    begin_delays,
    cut_delays,
    forget_delays,
    note_delays,
    save_delays,
)
from penstock.storage.epochs import LeaderEpochs
from penstock.storage.log_config import LogConfig
from penstock.storage.log_slice import LogSlice, cut_slice
from penstock.storage.log_sync import (
    Unsynced,
    is_synced,
    lower_recovery_point,
    points,
    settle,
    sync_log,
)
from penstock.storage.producer_reload import reload_producers, write_snapshot
from penstock.storage.producers import Producers
from penstock.storage.segment import RELATIVE_OFFSET_MAX, UNKNOWN, Segment, base_of
from penstock.storage.time_search import FoundOffset, find_first_since, find_youngest

HINTS_MAX = 32
NOWHERE = 1 << 63  # above every offset


class OffsetOutOfRange(LookupError):
    """The offset asked for lies outside [start, end] of the log."""


class Log:
    """The log of one partition. `storage.store` and `storage.recovery` make them."""

    __slots__ = (
        "_hints",
        "_tail_offset",
        "_tail_position",
        "active",
        "config",
        "context",
        "delays",
        "directory",
        "end",
        "epochs",
        "has_aborted",
        "high_watermark",
        "last_flush",
        "partition",
        "point_kept",
        "producers",
        "recovery_point",
        "segments",
        "start",
        "topic",
        "topic_id",
        "unsynced",
    )

    def __init__(
        self,
        context: LogContext,
        partition: TopicPartition,
        topic_id: bytes,
        directory: str,
        config: LogConfig,
        segments: list[Segment],
        *,
        start: int,
        end: int,
        recovery_point: int,
        epochs_text: str | None = None,
        names_synced: bool = False,
    ) -> None:
        self.context = context
        self.topic = partition.topic
        self.partition = partition.partition
        self.topic_id = topic_id
        self.directory = directory
        self.config = config
        self.segments = segments
        """Ascending, never empty. Replaced whole when it changes, so that a worker that took it
        keeps a consistent list."""
        self.active = segments[-1]
        self.start = start
        self.end = end
        self.recovery_point = recovery_point
        """Everything below is durable."""
        self.point_kept = recovery_point
        """The highest recovery point that a checkpoint on disk may hold."""
        self.high_watermark = start
        """Kept here by whoever replicates the log; retention and checkpoints read it."""
        self.last_flush = 0
        """When `sync` last finished, for flush.ms; set by whoever drives it."""
        self.producers = Producers()
        self.delays: DelayIndex | None = None
        """Which records wait for their time, if the log ever had one that did."""
        self.unsynced = Unsynced(names=not names_synced, settled_end=end if names_synced else -1)
        self.epochs = LeaderEpochs(self._epochs_changed, epochs_text)
        self.has_aborted = False
        """Whether any segment may have a transaction index: most logs never look for one."""
        self._forget_places()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.file.size for segment in self.segments)

    @property
    def truncations(self) -> int:
        """How often the log was cut: whoever works on it aside compares before and after."""
        return self.unsynced.truncations

    @property
    def is_compacted(self) -> bool:
        return self.config.cleanup_compact

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition}, [{self.start}, {self.end}))"

    # ── appending ───────────────────────────────────────────────────────────────────────────────

    def append(
        self,
        view: memoryview | bytes,
        head: Fields,
        base_offset: int,
        leader_epoch: int,
        now: int,
    ) -> None:
        """One batch, whose base offset and epoch are already patched into `view`.

        `head` may have been read before the patch; its other fields must be those of `view`.
        OSError if the disk takes it not, or not whole: the log is then as it was.
        """
        segment = self.active
        _, _, _, _, _, attributes, delta, _, timestamp, producer_id, _, _, _ = head
        last = base_offset + delta
        config = self.config
        if (
            segment.file.size + len(view) > config.segment_bytes
            or timestamp > segment.roll_at
            or last - segment.base > RELATIVE_OFFSET_MAX
        ):
            segment = self._segment_for(base_offset, last, len(view), timestamp, now)
        index_size = -1
        try:
            if attributes & CONTROL:
                if producer_id >= 0:
                    index_size = note_ahead(self, segment, view)
                elif self.delays is None:
                    begin_delays(self, base_offset, view)
            position = segment.append(view, last, timestamp, config)
        except OSError as error:
            self.context.on_fault(self, error)
            if index_size >= 0:
                take_back(self, segment, index_size)
            raise
        self._tail_offset = base_offset
        self._tail_position = position
        self.end = last + 1
        if leader_epoch != self.epochs.latest and leader_epoch >= 0:
            self.epochs.assign(leader_epoch, base_offset)
        if producer_id >= 0:
            if attributes & CONTROL:
                self.producers.replay(view, 0, read_head(view))
            else:
                self.producers.update(head, base_offset, timestamp)
        if self.delays is not None:
            note_delays(self, [(base_offset, *head[1:])], view)

    def append_together(self, view: memoryview, heads: list[Fields], now: int) -> None:
        """Batches that count only together, the first of them about delayed records: in one
        segment, with one write. OSError as in `append_run`."""
        base, last = heads[0][0], heads[-1]
        timestamp = max(head[8] for head in heads)
        self._segment_for(base, last[0] + last[6], len(view), timestamp, now)
        if self.delays is None:
            begin_delays(self, base, view)
        self.append_run([view], heads)

    def append_run(self, parts: list[memoryview], heads: list[Fields]) -> None:
        """Batches one behind the other, checked and with room in the active segment: one write.

        `parts` is their bytes, in as many pieces as they lie in. None of them is a
        transaction's marker. OSError if the disk takes them not, or not all: the log is then as
        it was.
        """
        try:
            position = self.active.append_run(parts, heads, self.config)
        except OSError as error:
            self.context.on_fault(self, error)
            raise
        base_offset = delta = 0
        for head in heads:
            base_offset, _, epoch, _, _, _, delta, _, timestamp, producer_id, _, _, _ = head
            if epoch != self.epochs.latest and epoch >= 0:
                self.epochs.assign(epoch, base_offset)
            if producer_id >= 0:
                self.producers.update(head, base_offset, timestamp)
        self._tail_offset = base_offset
        self._tail_position = position
        self.end = base_offset + delta + 1
        if self.delays is not None:
            note_delays(self, heads, parts[0] if len(parts) == 1 else b"".join(parts))

    def append_batches(
        self, data: bytes | bytearray | memoryview, now: int, epoch_max: int = EPOCH_MAX
    ) -> int:
        """Batches with offsets and epochs assigned; answers the new end. See `append_run`."""
        return append_batches(self, data, now, epoch_max)

    # ── rolling ─────────────────────────────────────────────────────────────────────────────────

    def _segment_for(
        self, base_offset: int, last: int, size: int, timestamp: int, now: int
    ) -> Segment:
        """The segment for the next batch: the active one, or a new one if that should roll.

        Comes here whenever it might: the exact questions are asked off the common path.
        """
        segment, config = self.active, self.config
        if segment.roll_at == UNKNOWN:
            first = segment.first_timestamp() if segment.file.size else timestamp
            if first >= 0:
                jitter_max = min(config.segment_jitter_ms, config.segment_ms)
                jitter = self.context.chance.between(0, jitter_max) if jitter_max > 0 else 0
                segment.roll_at = first + config.segment_ms - jitter
        if segment.roll_at == UNKNOWN:  # batches without timestamps count from the creation
            waited = now - segment.created > config.segment_ms
        else:
            waited = timestamp > segment.roll_at
        if (
            segment.file.size + size > config.segment_bytes
            or (waited and segment.file.size)
            or last - segment.base > RELATIVE_OFFSET_MAX
            or segment.index.is_full(config.segment_index_bytes)
        ) and base_offset > segment.base:
            return self.roll(now, base_offset)
        return segment

    def roll(self, now: int, base_offset: int | None = None) -> Segment:
        """Seal the active segment and go on in a new one, which begins at the log's end.

        Until the new one is there nothing has changed: a full disk leaves the log as it was.
        """
        base = self.end if base_offset is None else base_offset
        sealed = self.active
        try:
            write_snapshot(self, base)
            save_delays(self, base, sealed=sealed.size)
            sealed.seal()
            segment = Segment.create(self.context.disk, self.directory, base, now)
        except OSError as error:
            self.context.on_fault(self, error)
            raise
        self.unsynced.names = True
        self._use_segments([*self.segments, segment])
        self.context.indexes.touch(sealed)
        self.context.on_roll(self)
        return segment

    def skip_to(self, offset: int, now: int) -> None:
        """Go on at `offset`: nothing will be appended between the end and there."""
        invariant(offset >= self.end, "a log cannot skip back")
        if offset > self.end:
            self.roll(now, offset)
            self.end = offset

    def _use_segments(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.active = segments[-1]
        self._forget_places()

    def _forget_places(self) -> None:
        self._tail_offset = NOWHERE
        self._tail_position = 0
        self._hints: dict[int, int] = {}

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def read(
        self, offset: int, size_max: int, ceiling: int, whole_first: bool = True
    ) -> LogSlice | None:
        """From the batch that holds `offset`, up to `size_max` bytes, nothing from `ceiling` on.

        `ceiling` is an offset where a batch begins, or the end. None: nothing to read, or the
        first batch is larger than `size_max`; with `whole_first` it comes whole nevertheless, or
        a consumer with too small a limit would never get past it.
        """
        end = self.end
        if not self.start <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} is not within [{self.start}, {end}]")
        if offset >= ceiling or offset == end:
            return None
        segment = self.active
        if offset < segment.base:
            return self._read_sealed(offset, size_max, ceiling, whole_first)
        position = self._position_of(offset)
        stop = segment.file.size if ceiling >= end else self._position_of(ceiling)
        if stop - position <= size_max:
            self._expect(ceiling if ceiling < end else end, stop)
            return LogSlice(segment.file, position, stop - position) if stop > position else None
        return self._cut(segment, position, size_max, whole_first)

    def _position_of(self, offset: int) -> int:
        """Where in the active segment the batch with `offset` begins."""
        if offset >= self._tail_offset:
            return self._tail_position
        position = self._hints.get(offset)
        return self.active.position_of(offset) if position is None else position

    def _cut(
        self, segment: Segment, position: int, size_max: int, whole_first: bool
    ) -> LogSlice | None:
        """What fits of more than `size_max` bytes: whole batches, if the index knows where one ends
        near the limit. Part of one would be sent again, and its beginning looked for."""
        boundary = segment.boundary_before(position + size_max)
        if boundary is None or boundary[1] - position < max(size_max // 2, 1):
            return cut_slice(segment.file, position, size_max, whole_first)
        offset, stop = boundary
        self._expect(offset, stop)
        return LogSlice(segment.file, position, stop - position)

    def _expect(self, offset: int, position: int) -> None:
        """A reader will go on with the batch that begins with `offset`, which is here."""
        hints = self._hints
        if len(hints) >= HINTS_MAX:
            hints.clear()
        hints[offset] = position

    def _read_sealed(
        self, offset: int, size_max: int, ceiling: int, whole_first: bool
    ) -> LogSlice | None:
        segments = self.segments
        first = max(bisect_right(segments, offset, key=base_of) - 1, 0)
        for number in range(first, len(segments)):
            segment = segments[number]
            if segment.base >= ceiling:
                return None
            self.use_index(segment)
            hint = self._hints.get(offset) if number == first else None
            position = segment.position_of(offset) if hint is None else hint
            if position == segment.file.size:
                continue  # compaction took the rest of this segment
            is_last = number + 1 == len(segments)
            whole = ceiling >= (self.end if is_last else segments[number + 1].base)
            stop = segment.file.size if whole else segment.position_of(ceiling)
            if stop - position <= size_max:
                size = stop - position
                return LogSlice(segment.file, position, size) if size > 0 else None
            return self._cut(segment, position, size_max, whole_first)
        return None

    def use_index(self, segment: Segment) -> None:
        """Say that a sealed segment's index is about to be used: memory for those is bounded."""
        if segment is not self.active:
            self.context.indexes.touch(segment)

    def read_bytes(self, offset: int, size_max: int, ceiling: int | None = None) -> bytes:
        """`read`, resolved: b"" where there is nothing."""
        found = self.read(offset, size_max, self.end if ceiling is None else ceiling)
        return found.read() if found else b""

    def batches(
        self, offset: int, end: int | None = None
    ) -> Iterator[tuple[BatchHead, memoryview]]:
        """Every whole batch from the one that holds `offset` to the end, for replay."""
        end = self.end if end is None else end
        segments = self.segments
        for number in range(max(bisect_right(segments, offset, key=base_of) - 1, 0), len(segments)):
            segment = segments[number]
            if segment.base >= end:
                return
            position = 0
            if offset > segment.base:
                self.use_index(segment)
                position = segment.position_of(offset)
            for head, data in segment.batches(position, segment.file.size):
                if head.base_offset >= end:
                    return
                yield head, data

    def find_timestamp(self, timestamp: int) -> FoundOffset | None:
        """The first record that is as young as `timestamp` or younger."""
        return find_first_since(self, timestamp)

    def find_max_timestamp(self) -> FoundOffset | None:
        """The first of the records with the highest timestamp."""
        return find_youngest(self)

    # ── cutting ─────────────────────────────────────────────────────────────────────────────────

    def truncate_to(self, offset: int, now: int = 0) -> None:
        """Cut off `offset` and all behind it, producers and epochs included."""
        if offset >= self.end:
            # An epoch that began here and wrote nothing: its leader may know it no more.
            self.epochs.truncate_from_end(self.end)
            return
        if offset < self.segments[0].base:
            self.truncate_all(offset, now)
            return
        self._lower_points(offset)
        keep = bisect_right(self.segments, offset, key=base_of)
        gone, kept = self.segments[keep:], self.segments[:keep]
        # From the newest down: a crash in between leaves a log without holes.
        self._discard(gone[::-1], now)
        self.context.indexes.forget(kept[-1])
        kept[-1].truncate(offset, now)
        truncate_index(self, kept[-1], offset)
        self._use_segments(kept)
        self.end = offset
        lower_recovery_point(self, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.epochs.truncate_from_end(offset)
        reload_producers(self, now)
        cut_delays(self)

    def truncate_all(self, start_offset: int, now: int = 0) -> None:
        """Forget everything and begin anew at `start_offset`."""
        self._lower_points(start_offset)
        self._discard(self.segments[::-1], now)
        segment = Segment.create(self.context.disk, self.directory, start_offset, now)
        self.unsynced.names = True
        self._use_segments([segment])
        self.start = self.end = start_offset
        lower_recovery_point(self, start_offset)
        self.high_watermark = start_offset
        self.epochs.clear()
        self.producers.clear()
        forget_delays(self)

    def _lower_points(self, offset: int) -> None:
        """Nothing at or above `offset` counts as durable any more, on disk neither."""
        lower_recovery_point(self, offset)
        kept = max(self.point_kept, self.start)
        self.start = min(self.start, offset)
        if offset < kept:
            self.context.on_truncate(self)
            self.point_kept = offset

    def _epochs_changed(self, text: str) -> None:
        with points:
            self.unsynced.epochs = text

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers; retention removes their segments later."""
        invariant(offset <= self.end, "the log start may not pass the log end")
        if offset > self.start:
            self.start = offset
            self.epochs.truncate_from_start(offset)
            if self.delays is not None:
                self.delays.drop_below(offset)

    def drop_segments(self, count: int, now: int) -> None:
        """Delete the oldest `count` segments; if that would be all, a new one begins at the end."""
        if count == len(self.segments):
            self.roll(now)
        gone, kept = self.segments[:count], self.segments[count:]
        self.advance_start(max(self.start, kept[0].base))
        self._use_segments(kept)
        self._discard(gone, now)

    def replace_segments(self, new: list[Segment], old: list[Segment], now: int) -> None:
        """Put compacted segments, whose files are marked `.swap`, in the place of others.

        The old ones are renamed before the new ones take their names: who still reads an old
        slice keeps reading the old bytes. A crash in between is finished by recovery, because the
        `.swap` files are whole and synced.
        """
        kept = [segment for segment in self.segments if segment not in old]
        self._discard(old, now, keep_snapshots={segment.base for segment in new})
        for segment in new:
            segment.remark("")
        self.unsynced.names = True
        self._use_segments(sorted([*kept, *new], key=base_of))

    def _discard(
        self, segments: list[Segment], now: int, keep_snapshots: Container[int] = ()
    ) -> None:
        """Rename to `.deleted`; readers that hold a slice may finish until the delay is over."""
        due = now + self.config.file_delete_delay_ms
        for segment in segments:
            self.context.indexes.forget(segment)
            paths = segment.remark(names.DELETED, snapshot=segment.base not in keep_snapshots)
            self.context.trash.add(due, paths, [segment])

    # ── durability ──────────────────────────────────────────────────────────────────────────────

    def sync(self, *, closing: bool = False) -> int:
        """Make everything appended so far durable; answers its end. Blocks: for workers."""
        return sync_log(self, closing=closing)

    @property
    def is_synced(self) -> bool:
        """Whether a power cut now would lose nothing."""
        return is_synced(self)

    def write_indexes(self) -> None:
        """Bring the active segment's index files up to date, for tools that look at them."""
        index = self.active.index if self.active.index_loaded else None
        if index is not None and len(index.offsets) > index.offsets_written:
            self.active.write_index()

    def settle(self) -> None:
        """Write what is only in memory: producers, the active segment's index, epochs."""
        settle(self)

    def close(self) -> None:
        """Write what is only in memory and hand the descriptors back. Does not sync."""
        settle(self)
        self.abandon()

    def rename_directory(self, path: str) -> None:
        """Give the directory another name. Open descriptors stay good, paths follow."""
        self.context.disk.rename(self.directory, path)
        self.directory = path
        self.unsynced.names = True
        for segment in self.segments:
            segment.move_to(path)

    def abandon(self) -> None:
        """Hand the descriptors back and write nothing: the directory failed or is to go."""
        for segment in self.segments:
            self.context.indexes.forget(segment)
            segment.close()
