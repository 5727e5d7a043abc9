"""The metadata log on disk: segments, snapshots and the vote, in one directory."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.metadata.levels import KRAFT_VERSION
from penstock.metadata.loader import ImageLoader, folded
from penstock.model.ids import METADATA_TOPIC_ID, TopicPartition, uuid_text
from penstock.raft import election_state
from penstock.raft.batches import decode_controls, decode_records, encode_controls
from penstock.raft.damage import Guard
from penstock.raft.election_state import ElectionState
from penstock.raft.format import METADATA_DIRECTORY
from penstock.raft.messages import Position
from penstock.raft.snapshots import (
    PART,
    CorruptSnapshot,
    Snapshot,
    SnapshotId,
    decode_snapshot,
    list_snapshots,
    remove_unfinished,
)
from penstock.raft.support import check_supported
from penstock.raft.voters import DYNAMIC_FROM, Voters, voters_of
from penstock.records import control
from penstock.records.batch import CONTROL, HEAD_SIZE, PREFIX_SIZE, read_head
from penstock.storage import names
from penstock.storage.epochs import FILE_NAME as EPOCHS_FILE
from penstock.storage.log import CorruptBatch
from penstock.storage.recovery import load_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.metadata.image import MetadataImage
    from penstock.metadata.loader import Published
    from penstock.raft.settings import MetadataLogSettings
    from penstock.records.batch import BatchHead
    from penstock.storage.context import LogContext

log = logging.getLogger("penstock.raft")

PARTITION = TopicPartition(names.METADATA_TOPIC, 0)


class UnreadableRecord(ValueError):
    """A whole batch that this release does not understand. Skipping it would be guessing."""


class Prepared(NamedTuple):
    """A leader's snapshot, read, folded and on disk: all but in its place."""

    id: SnapshotId
    image: MetadataImage
    timestamp: int
    voters: Voters | None


class JournalView:
    """The metadata log as the quorum's machine sees it."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def start(self) -> Position:
        start = self._journal.log.start
        # Only what a snapshot stands for leaves the log, so one of them ends where it begins; or,
        # after a restart, in its first segment.
        return Position(self._journal.start_epoch, start)

    @property
    def end(self) -> int:
        return self._journal.log.end

    @property
    def last_epoch(self) -> int:
        latest = self._journal.log.epochs.latest
        return latest if latest >= 0 else self._journal.snapshot_id.epoch

    @property
    def snapshot(self) -> SnapshotId:
        return self._journal.snapshot_id

    def end_of(self, epoch: int) -> Position:
        log = self._journal.log
        if epoch > log.epochs.latest:
            return Position(self.last_epoch, log.end)
        if not log.epochs.entries or epoch < log.epochs.entries[0][0]:
            return self.start
        return Position(*log.epochs.end_offset_for(epoch, log.end))


class Journal:
    """Opens, replays and trims `__cluster_metadata-0`. Everything here blocks."""

    __slots__ = (
        "_voters_since",
        "directory",
        "disk",
        "loader",
        "log",
        "settings",
        "snapshot_id",
        "start_epoch",
        "timestamp",
        "view",
    )

    def __init__(
        self,
        context: LogContext,
        root: str,
        voters: Voters,
        settings: MetadataLogSettings,
        now: int,
        *,
        sole: bool = True,
    ) -> None:
        """Recover the log and fold it, newest snapshot first, into an image.

        `voters` are the configured ones; those that the log names take their place. Only a `sole`
        voter knows that all its log holds is committed: others fold the newest snapshot, and the
        rest as they learn that it is (`replay_to`).
        """
        self.disk = context.disk
        self.settings = settings
        self.directory = os.path.join(root, METADATA_DIRECTORY)
        self._voters_since: list[tuple[int, Voters]] = [(-1, voters)]
        """Where the log names voters, and whom: the last count, committed or not."""
        self.timestamp = 0
        """Of the newest batch."""
        self._prepare(root)
        guard = Guard(self.disk, self.directory)
        # Kafka's own recovery trusts nothing here either: the log is short, and it is everything.
        self.log = load_log(
            context,
            PARTITION,
            METADATA_TOPIC_ID,
            self.directory,
            settings.log_config,
            clean=False,
            now=now,
        )
        guard.check(self.log.end)
        self.loader = ImageLoader()
        self.snapshot_id = SnapshotId(0, 0)
        """The newest snapshot, or where it would be."""
        self.start_epoch = self._epoch_before(self.log.start)
        self.view = JournalView(self)
        self._load_snapshot()
        self._load_tail(replay=sole)
        if not sole:
            # What a process that was killed had written may not be durable yet, and the first
            # fetch says that it is. Who is alone syncs before it commits anything anyhow.
            self.log.sync()

    def _prepare(self, root: str) -> None:
        if not self.disk.exists(self.directory):
            self.disk.mkdir(self.directory)
            self.disk.sync_directory(root)
        remove_unfinished(self.disk, self.directory)
        epochs = os.path.join(self.directory, EPOCHS_FILE)
        if self.disk.exists(epochs):
            # It may have lost epochs of records that are still here: trimming moves the log's start
            # behind a snapshot, and a restart to the beginning of a segment. A leader would tell
            # followers to drop what they rightly have. The batches are read through anyhow.
            self.disk.remove(epochs)
        metadata = os.path.join(self.directory, names.PARTITION_METADATA)
        if not self.disk.exists(metadata):
            text = f"version: 0\ntopic_id: {uuid_text(METADATA_TOPIC_ID)}"
            self.disk.write_atomic(metadata, text.encode())

    def _load_snapshot(self) -> None:
        found = self._newest_readable()
        if found is None:
            if self.log.start > 0:
                raise CorruptSnapshot(
                    f"{self.directory}: the log begins at {self.log.start} and no snapshot that "
                    "can be read covers what was before; restore the directory from another voter"
                )
            return
        self.snapshot_id, snapshot = found
        end, epoch = self.snapshot_id
        if snapshot.voters is not None:
            self._voters_since.append((end - 1, snapshot.voters))
        self.timestamp = snapshot.timestamp
        self.loader.replay(snapshot.records, end - 1, epoch)
        if self.log.end < end:
            # The snapshot came from a leader, or the segments were lost: it stands for them.
            self.log.truncate_all(end)
            self.start_epoch = epoch
        elif self.log.start > end:
            raise CorruptSnapshot(
                f"{self.directory}: nothing that can be read covers offsets {end} to "
                f"{self.log.start}; restore the directory from another voter"
            )

    def _newest_readable(self) -> tuple[SnapshotId, Snapshot] | None:
        for snapshot_id in reversed(list_snapshots(self.disk, self.directory)):
            path = os.path.join(self.directory, snapshot_id.name)
            try:
                return snapshot_id, decode_snapshot(self.disk.read_bytes(path))
            except CorruptSnapshot as error:
                log.error("%s: %s; trying the one before", path, error)
        return None

    def _load_tail(self, *, replay: bool) -> None:
        first = max(self.snapshot_id.end, self.log.start)
        for head, data in self.log.batches(first):
            self._note(head, data)
            if replay:
                self._replay(head, data)

    def _note(self, head: BatchHead, data: bytes | memoryview) -> None:
        """What a batch means for the log itself, committed or not."""
        self.timestamp = max(self.timestamp, head.max_timestamp)
        if not head.attributes & CONTROL:
            return
        version, named = self.voters.kraft_version, None
        for kind, message in decode_controls(head, data):
            if kind == control.KRAFT_VERSION:
                version = message.kraft_version
                check_supported(self.directory, {KRAFT_VERSION: version})
            elif kind == control.KRAFT_VOTERS:
                named = message
        if named is not None:
            voters = voters_of(named, max(version, DYNAMIC_FROM))
        elif version != self.voters.kraft_version:
            voters = self.voters._replace(kraft_version=version)
        else:
            return
        self._voters_since.append((head.base_offset, voters))

    def _replay(self, head: BatchHead, data: bytes | memoryview) -> None:
        last = head.base_offset + head.last_offset_delta
        try:
            self.loader.replay(decode_records(head, data), last, head.leader_epoch)
        except ValueError as error:
            raise UnreadableRecord(
                f"{self.directory}: the batch at offset {head.base_offset} cannot be read: "
                f"{error}. If a newer release wrote it, start that release."
            ) from error

    @property
    def voters(self) -> Voters:
        """Who votes, by the end of the log."""
        return self._voters_since[-1][1]

    @property
    def voters_offset(self) -> int:
        """Where the log names them; -1 if it does not."""
        return self._voters_since[-1][0]

    @property
    def voters_before(self) -> Voters | None:
        """Who voted before that."""
        return self._voters_since[-2][1] if len(self._voters_since) > 1 else None

    def voters_at(self, offset: int) -> Voters:
        """Who votes by the record at `offset`: a later one may name others, and never count."""
        return next(voters for since, voters in reversed(self._voters_since) if since <= offset)

    # -- following --------------------------------------------------------------------------------

    def replay_to(self, end: int) -> Published:
        """Fold what is committed and not folded yet, up to `end`."""
        for head, data in self.log.batches(self.loader.offset + 1, end):
            self._replay(head, data)
        return self.publish()

    def publish(self) -> Published:
        """What was folded; UnsupportedLevel if the cluster agreed on what nobody here knows."""
        before = self.loader.image.features
        published = self.loader.publish()
        if published.image.features is not before:
            check_supported(self.directory, published.image.features.levels)
        return published

    # -- leading ----------------------------------------------------------------------------------

    def append_controls(self, messages: Sequence[tuple[int, Any]], epoch: int, now: int) -> bytes:
        """Append records of the quorum's own, in one batch; answers its bytes."""
        before = self.log.end
        data = encode_controls(messages, before, epoch, now)
        self.log.append_batches(data, now)
        for head, kept in self.log.batches(before):
            self._note(head, kept)
        return data

    # -- copying ----------------------------------------------------------------------------------

    def append_fetched(self, data: bytes, epoch: int, now: int) -> None:
        """Append what the leader of `epoch` sent.

        CorruptBatch, and what came before stays, if one is no batch, does not follow the last one
        without a gap, or is of an epoch that its leader cannot have.
        """
        before = self.log.end
        try:
            for batch in _whole_batches(data):
                head = read_head(batch)
                if head.base_offset != self.log.end:
                    raise CorruptBatch(f"a batch at {head.base_offset}, {self.log.end} is next")
                if not self.view.last_epoch <= head.leader_epoch <= epoch:
                    raise CorruptBatch(
                        f"the batch at {head.base_offset} is of epoch {head.leader_epoch}, and "
                        f"epochs {self.view.last_epoch} to {epoch} may follow"
                    )
                self.log.append_batches(batch, now)
        finally:
            for head, kept in self.log.batches(before):
                self._note(head, kept)

    def truncate(self, end: int, now: int) -> None:
        """Drop everything from `end` on, durably, and whom it named as voters."""
        self.log.truncate_to(end, now)
        self.log.sync()
        while self._voters_since[-1][0] >= end:
            self._voters_since.pop()

    def read_snapshot(self, snapshot_id: SnapshotId, at: int, bytes_max: int) -> tuple[int, bytes]:
        """How large a snapshot is, and a piece of it; FileNotFoundError if it is not here."""
        path = os.path.join(self.directory, snapshot_id.name)
        # What formatting left is this node's own: the first leader puts it into the log.
        if snapshot_id.end <= 0 or not self.disk.exists(path):
            raise FileNotFoundError(path)
        file = self.disk.open(path)
        try:
            data = file.pread(bytes_max, at) if 0 <= at < file.size else b""
            return file.size, data
        finally:
            file.close()

    def prepare(self, snapshot_id: SnapshotId, data: bytes) -> Prepared:
        """Read a leader's snapshot and write it down, under another name. Call it in a worker.

        CorruptSnapshot if it is cut or rotten, UnsupportedLevel if this release cannot read it.
        """
        snapshot = decode_snapshot(data)
        image = folded(snapshot.records, snapshot_id.end - 1, snapshot_id.epoch)
        check_supported(snapshot_id.name, image.features.levels)
        if snapshot.voters is not None:
            version = snapshot.voters.kraft_version
            check_supported(snapshot_id.name, {KRAFT_VERSION: version})
        self.disk.write_atomic(self._part_of(snapshot_id), data)
        return Prepared(snapshot_id, image, snapshot.timestamp, snapshot.voters)

    def install(self, prepared: Prepared, now: int) -> None:
        """Begin anew behind a leader's snapshot."""
        snapshot_id = prepared.id
        self.disk.rename(self._part_of(snapshot_id), os.path.join(self.directory, snapshot_id.name))
        self.disk.sync_directory(self.directory)
        self.log.truncate_all(snapshot_id.end, now)
        self.log.sync()
        self.snapshot_id, self.start_epoch = snapshot_id, snapshot_id.epoch
        self.timestamp = prepared.timestamp
        configured = self._voters_since[0]
        named = [] if prepared.voters is None else [(snapshot_id.end - 1, prepared.voters)]
        self._voters_since = [configured, *named]
        self.loader.replace(prepared.image)

    def discard(self, prepared: Prepared) -> None:
        """Something else came meanwhile: the snapshot is not needed."""
        path = self._part_of(prepared.id)
        if self.disk.exists(path):
            self.disk.remove(path)

    def _part_of(self, snapshot_id: SnapshotId) -> str:
        return os.path.join(self.directory, snapshot_id.name + PART)

    def _epoch_before(self, start: int) -> int:
        """The epoch of the record before the log's start, by the snapshot that ends there."""
        for snapshot_id in list_snapshots(self.disk, self.directory):
            if snapshot_id.end >= start:
                return snapshot_id.epoch
        return 0

    # -- the vote ---------------------------------------------------------------------------------

    def read_election(self) -> ElectionState:
        path = os.path.join(self.directory, election_state.FILE_NAME)
        if not self.disk.exists(path):
            return ElectionState()
        return election_state.decode(self.disk.read_bytes(path))

    def save_election(self, state: ElectionState) -> None:
        """Durable when this returns."""
        path = os.path.join(self.directory, election_state.FILE_NAME)
        self.disk.write_atomic(path, election_state.encode(state, self.voters))

    # -- trimming ---------------------------------------------------------------------------------

    def trim(self, now: int) -> list[SnapshotId]:
        """Drop what newer snapshots stand for, as far as retention says; answers what went.

        The newest snapshot always stays, and so does every segment that it does not cover whole.
        """
        kept = list_snapshots(self.disk, self.directory)
        gone: list[SnapshotId] = []
        while len(kept) > 1 and self._expired(kept, now):
            gone.append(kept.pop(0))
        if not gone:
            return gone
        first = kept[0].end
        if first > self.log.start:
            self.log.advance_start(first)
            self.start_epoch = kept[0].epoch
        covered = sum(1 for after in self.log.segments[1:] if after.base <= first)
        if covered:
            self.log.drop_segments(covered, now)
        for snapshot_id in gone:
            self.disk.remove(os.path.join(self.directory, snapshot_id.name))
        return gone

    def _expired(self, kept: list[SnapshotId], now: int) -> bool:
        paths = [os.path.join(self.directory, each.name) for each in kept]
        size = self.log.size + sum(self.disk.size_of(path) for path in paths)
        if 0 <= self.settings.retention_bytes < size:
            return True
        age = now - self.disk.modified_ms(paths[0])
        return 0 <= self.settings.retention_ms < age


def _whole_batches(data: bytes) -> Iterator[memoryview]:
    """The batches in a leader's answer, but for one that is cut at its end."""
    view = memoryview(data)
    at = 0
    while at + HEAD_SIZE <= len(view):
        end = at + PREFIX_SIZE + max(read_head(view, at).length, HEAD_SIZE - PREFIX_SIZE)
        if end > len(view):
            return
        yield view[at:end]
        at = end
