"""The part of compaction that reads and writes: runs in a worker thread, a round at a time.

It works on what was taken from the log when the round was planned (sealed segments, which do not
change) and writes `.cleaned` files, which nobody else looks at. What they become is decided on the
event loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from penstock.records.batch import CONTROL, HEAD_SIZE, MAGIC, BatchHead, crc_of, read_head
from penstock.storage import names
from penstock.storage.compaction_filter import BatchFilter, Breath, TxnTracker, note_keys
from penstock.storage.compaction_map import OffsetMap
from penstock.storage.compaction_plan import Plan, round_of, sealed_segments
from penstock.storage.segment import Segment
from penstock.storage.txn_index import AbortedTxn, decode_entries, encode_entries

CHUNK = 1 << 20
INDEX_SUFFIXES = (names.INDEX, names.TIME_INDEX, names.TXN_INDEX)


class Cancelled(Exception):
    """The node stops, or the log is no longer what the round was planned for."""


class Uncleanable(ValueError):
    """The log cannot be compacted: a batch is rotten, or the key map too small for it."""


class CompactionWork:
    """One round over one log. Make it on the event loop; call `build_map` and then `clean`, for one
    group of segments after the other, in a worker. `cancel` from anywhere."""

    def __init__(
        self, plan: Plan, now: int, memory_max: int, salt: bytes, bytes_per_second_max: float
    ) -> None:
        span = plan.first_uncleanable - plan.first_dirty
        self.plan = plan
        self.round = round_of(plan, now)
        self.offsets = OffsetMap(memory_max, span, salt)
        self.cancelled = False
        self.bytes_written = 0
        self._bytes_per_second_max = bytes_per_second_max
        self._breath = Breath()
        self._disk = plan.log.context.disk
        self._config = plan.log.config
        self._directory = plan.log.directory
        self._sealed = sealed_segments(plan.log)
        # The active segment's as well: a transaction may begin below it and be aborted there.
        self._txn_indexes = [segment.path(names.TXN_INDEX) for segment in plan.log.segments]
        self._filter: BatchFilter | None = None
        self._txns = TxnTracker(())

    def cancel(self) -> None:
        """End the round at the next batch."""
        self.cancelled = True

    def build_map(self) -> None:
        """Find the newest offset of every key in the dirty part, or in as much of it as fits."""
        plan, offsets = self.plan, self.offsets
        aborted = self._aborted()
        txns = TxnTracker(aborted)
        offsets.end = plan.first_dirty
        for segment, end in self._sealed:
            if end <= plan.first_dirty:
                continue
            if segment.base >= plan.first_uncleanable or not self._map_segment(segment, txns):
                break
            offsets.end = end  # offsets that an earlier round took count as seen
        if offsets.end <= plan.first_dirty:
            raise Uncleanable(f"one batch has more keys than the map holds: {offsets.entries_max}")
        self._txns = TxnTracker(aborted)
        self._filter = BatchFilter(offsets, self._txns, self.round, self._breath)

    def _map_segment(self, segment: Segment, txns: TxnTracker) -> bool:
        start = self.plan.first_dirty
        for head, batch in self._batches(segment):
            if head.attributes & CONTROL:
                txns.is_superfluous(batch, head)
            elif (
                not txns.is_aborted(head)
                and head.last_offset >= start
                and not note_keys(
                    self.offsets, batch, head, start, self.round.size_max, self._breath
                )
            ):
                return False
            self.offsets.end = max(self.offsets.end, head.end_offset)
        return True

    def clean(self, group: list[Segment]) -> Segment:
        """One `.cleaned` segment of what survives in `group`, durable."""
        created = group[-1].created
        cleaned = Segment.create(self._disk, self._directory, group[0].base, created, names.CLEANED)
        try:
            # Held open while we write: the event loop's thread takes idle descriptors back.
            with cleaned.file.pinned():
                for segment in group:
                    self._clean_into(cleaned, segment)
                if self._txns.kept:
                    entries = encode_entries(self._txns.kept)
                    self._disk.write_at(cleaned.path(names.TXN_INDEX), entries, 0)
                    self._txns.kept.clear()
                cleaned.seal()
                # All of it must be durable before a name says that it replaces anything.
                cleaned.file.sync()
                for suffix in INDEX_SUFFIXES:
                    if self._disk.exists(cleaned.path(suffix)):
                        self._disk.sync_path(cleaned.path(suffix))
        except BaseException:
            self.discard(cleaned)
            raise
        self.bytes_written += cleaned.size
        return cleaned

    def _clean_into(self, cleaned: Segment, segment: Segment) -> None:
        keep = self._filter
        assert keep is not None, "build_map comes first"
        for head, batch in self._batches(segment):
            survivor = keep.survivor(batch, head)
            if survivor is None:
                continue
            data = bytes(survivor) if isinstance(survivor, bytearray) else survivor
            timestamp = head.max_timestamp if survivor is batch else read_head(data).max_timestamp
            cleaned.append(data, head.last_offset, timestamp, self._config)

    def discard(self, cleaned: Segment) -> None:
        """Remove the files of a segment that is not to be used."""
        cleaned.close()
        for suffix in names.SEGMENT_SUFFIXES:
            self._disk.remove(cleaned.path(suffix))

    def _aborted(self) -> list[AbortedTxn]:
        found: list[AbortedTxn] = []
        for path in self._txn_indexes:
            if self._disk.exists(path):
                found.extend(decode_entries(self._disk.read_bytes(path)))
        return found

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHead, memoryview]]:
        """Every batch of a sealed segment, its checksum proven: rot must not get a fresh one."""
        position, size = 0, segment.size
        wanted = CHUNK
        while position < size:
            began = time.monotonic()
            chunk = memoryview(segment.file.pread_waiting(min(wanted, size - position), position))
            at = 0
            while len(chunk) - at >= HEAD_SIZE:
                head = read_head(chunk, at)
                end = at + head.size
                if head.length < HEAD_SIZE - 12 or head.magic != MAGIC:
                    raise Uncleanable(f"{segment.file.path} holds no batch at {position + at}")
                if end > len(chunk):
                    wanted = max(CHUNK, head.size)
                    break
                if crc_of(chunk, at, end) != head.crc:
                    raise Uncleanable(f"{segment.file.path}: rotten batch at {position + at}")
                if self.cancelled:
                    raise Cancelled
                yield head, chunk[at:end]
                at = end
            if at == 0 and (len(chunk) == size - position or wanted <= len(chunk)):
                raise Uncleanable(f"{segment.file.path} ends within a batch at {position}")
            position += at
            self._rest(at, time.monotonic() - began)

    def _rest(self, read: int, took: float) -> None:
        """Sleep for what the pace asks beyond the time that the work took by itself."""
        due = read / self._bytes_per_second_max
        if due > took:
            time.sleep(due - took)
