"""What of a log is durable: syncing it, and writing what is only in memory.

The order in `sync_log` is what recovery relies on. Batches come first. Then, for sealed segments,
their indexes: recovery does not look at a segment below the recovery point again. Then snapshots
and epochs, which are made anew from batches above the recovery point, but not below it. Then the
names, for a file that is synced but has no durable name is lost as well. Only when all of it is
done may the recovery point move.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from typing import TYPE_CHECKING

from penstock.storage import names
from penstock.storage.delay_snapshots import save_delays
from penstock.storage.epochs import FILE_NAME as EPOCHS_FILE
from penstock.storage.producer_reload import snapshot_offsets, write_snapshot
from penstock.storage.segment import Segment, base_of

if TYPE_CHECKING:
    from penstock.platform.disk import Disk
    from penstock.storage.log import Log

points = threading.Lock()
"""Guards recovery points and unsaved epochs, which workers and the event loop both move."""


class Unsynced:
    """What a log has not made durable yet, besides its batches."""

    __slots__ = ("epochs", "failure", "lock", "names", "settled_end", "truncations")

    def __init__(self, *, names: bool, settled_end: int) -> None:
        self.epochs: str | None = None
        """The epoch checkpoint's text. An fsync for each new leader would stall a large node; the
        next sync writes it, and until then a restart reads epochs from the batches."""
        self.names = names
        """Whether files were created, renamed or cut since they were synced."""
        self.settled_end = settled_end
        """The log's end when the producers were last written at it; -1: never."""
        self.truncations = 0
        """Counts cuts, so that a sync under way notices that it speaks of bytes that are gone."""
        self.lock = threading.Lock()
        """Held by whoever syncs: a second sync must not end while the first still owes a part."""
        self.failure: OSError | None = None
        """Why a sync failed. Linux tells of it once, and would let the next one succeed."""


def sync_log(log: Log, *, closing: bool = False) -> int:
    """Make everything appended so far durable and answer its end. Blocks: call it in a worker.

    The index of the active segment is left out, for a crash makes it anew, unless `closing`.
    """
    unsynced = log.unsynced
    with unsynced.lock:
        if unsynced.failure is not None:
            raise OSError(unsynced.failure.errno, f"synced in vain before: {unsynced.failure}")
        truncations = unsynced.truncations
        end, segments = log.end, log.segments
        # From the segment that holds the last durable batch: it may have been sealed since, and
        # what was written then is not synced yet.
        first = max(bisect_left(segments, log.recovery_point, key=base_of) - 1, 0)
        try:
            for segment in segments[first:]:
                _sync_segment(log, segment, indexes=closing or segment is not segments[-1])
            if unsynced.epochs is not None:
                save_epochs(log, sync=True)
            if unsynced.names:
                _sync_names(log, segments[-1])
        except OSError as error:
            if log.active.file.closed:
                return end  # the log was deleted meanwhile: nothing of it needs to last
            unsynced.failure = error
            raise
        with points:
            if truncations == unsynced.truncations and end > log.recovery_point:
                log.recovery_point = end
        return end


def _sync_segment(log: Log, segment: Segment, *, indexes: bool) -> None:
    disk = log.context.disk
    try:
        segment.file.sync()
        for suffix in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX) if indexes else ():
            _sync_if_there(disk, segment.path(suffix))
    except OSError:
        if segment.mark != names.DELETED:  # else retention or truncation took it meanwhile
            raise


def _sync_names(log: Log, active: Segment) -> None:
    unsynced = log.unsynced
    unsynced.names = False  # before the syncs: a roll in between must be seen next time
    disk, directory = log.context.disk, log.directory
    delays = log.delays
    for name in (
        *(names.stem(each) + names.DELAYED for each in (list(delays.snapshots) if delays else ())),
        names.stem(active.base) + names.SNAPSHOT,
        names.stem(max(unsynced.settled_end, 0)) + names.SNAPSHOT,
        names.PARTITION_METADATA,
        EPOCHS_FILE,
    ):
        _sync_if_there(disk, f"{directory}/{name}")
    disk.sync_directory(directory)
    disk.sync_directory(os.path.dirname(directory))


def _sync_if_there(disk: Disk, path: str) -> None:
    """Not every log has every file, and a deletion may take one away at any moment."""
    try:
        disk.sync_path(path)
    except FileNotFoundError:
        pass


def save_epochs(log: Log, *, sync: bool) -> None:
    """Write the epoch checkpoint if it changed."""
    with points:
        text, log.unsynced.epochs = log.unsynced.epochs, None
    if text is not None:
        log.context.disk.write_atomic(f"{log.directory}/{EPOCHS_FILE}", text.encode(), sync=sync)
        if not sync:
            log.unsynced.names = True


def lower_recovery_point(log: Log, offset: int) -> None:
    """The log is about to be cut at `offset`, or just was: a sync may have begun in between."""
    with points:
        log.unsynced.truncations += 1
        log.recovery_point = min(log.recovery_point, offset)
        if offset < log.unsynced.settled_end:
            log.unsynced.settled_end = -1  # what was written about that end goes with it
        log.unsynced.names = True  # the cut itself must be synced, or what was cut comes back


def settle(log: Log) -> None:
    """Write what is only in memory: producers, the active segment's index, epochs."""
    if log.end > log.unsynced.settled_end:
        if len(log.producers) or snapshot_offsets(log):
            write_snapshot(log, log.end)
        save_delays(log, log.end)
        log.unsynced.settled_end = log.end
        log.unsynced.names = True
    log.active.seal()
    save_epochs(log, sync=False)


def mark_synced(log: Log) -> None:
    """Somebody synced the whole file system after `settle`, and nothing was appended since."""
    with points:
        log.recovery_point = log.end
        log.unsynced.names = False


def is_synced(log: Log) -> bool:
    """Whether a power cut now would lose nothing."""
    unsynced = log.unsynced
    return log.recovery_point == log.end and not unsynced.names and unsynced.epochs is None
