"""Snapshots of this node's own: when one is due, written in a worker, and what may go then."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.raft.snapshots import SnapshotId, encode_snapshot, write_snapshot

if TYPE_CHECKING:
    import asyncio

    from penstock.metadata.image import MetadataImage
    from penstock.platform.clock import Clock
    from penstock.platform.workers import Workers
    from penstock.raft.journal import Journal

log = logging.getLogger("penstock.raft")


class SnapshotWriter:
    """Writes one snapshot at a time."""

    def __init__(self, journal: Journal, clock: Clock, workers: Workers) -> None:
        self._journal = journal
        self._clock = clock
        self._workers = workers
        self._last_at = clock.monotonic()
        self.bytes_since = 0
        """How much was appended since the last one."""
        self.writing: asyncio.Future[None] | None = None

    def is_due(self, image: MetadataImage) -> bool:
        """Whether enough has happened since the last one, and a new one would say more."""
        settings, journal = self._journal.settings, self._journal
        if image.offset + 1 <= journal.snapshot_id.end or self.writing is not None:
            return False
        if journal.loader.in_transaction:
            return False  # the image has passed records that do not show in it, and never may
        waited = self._clock.monotonic() - self._last_at
        return self.bytes_since >= settings.snapshot_bytes or (
            settings.snapshot_interval_ms > 0 and waited >= settings.snapshot_interval_ms
        )

    def write(self, image: MetadataImage) -> asyncio.Future[None]:
        """Write a snapshot of a committed image, in a worker; then trim what it stands for."""
        journal = self._journal
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        self.bytes_since = 0
        self._last_at = self._clock.monotonic()
        now, covered, voters = self._clock.now(), journal.timestamp, journal.voters_at(image.offset)
        level = image.features.metadata_version

        def work() -> None:
            data = encode_snapshot(image.records(), level, image.epoch, covered, now, voters)
            write_snapshot(journal.disk, journal.directory, snapshot_id, data)

        self.writing = writing = self._workers.submit(work)
        writing.add_done_callback(lambda done: self._on_written(done, snapshot_id))
        return writing

    def _on_written(self, done: asyncio.Future[None], snapshot_id: SnapshotId) -> None:
        self.writing = None
        failure = done.exception()
        if failure is not None:
            # The log still holds everything: go on, and try again when the next one is due.
            log.error("cannot write snapshot %s: %s", snapshot_id.name, failure)
            return
        # A leader's may have come meanwhile, and the log begin behind that one.
        self._journal.snapshot_id = max(self._journal.snapshot_id, snapshot_id)
        try:
            gone = self._journal.trim(self._clock.now())
        except OSError as problem:
            log.error("cannot drop what snapshot %s stands for: %s", snapshot_id.name, problem)
            return
        log.info("wrote snapshot %s, dropped %d older", snapshot_id.name, len(gone))
