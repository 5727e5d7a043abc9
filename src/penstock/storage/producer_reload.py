"""Producer state beside a log: written when a segment is sealed, rebuilt when the log was cut.

`OFFSET.snapshot` holds the state of all batches below OFFSET. The state at any later offset is the
newest snapshot below it and the batches in between.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from penstock.storage import names
from penstock.storage.aborted import note_aborted
from penstock.storage.producer_snapshot import CorruptSnapshot

if TYPE_CHECKING:
    from penstock.storage.log import Log

logger = logging.getLogger(__name__)


def write_snapshot(log: Log, offset: int) -> None:
    """Write the state as of `offset`, the log's end. Synced later, with the segment before it."""
    log.context.disk.write_at(_path(log, offset), log.producers.snapshot(), 0)


def snapshot_offsets(log: Log) -> list[int]:
    """The offsets of the snapshots there are, ascending."""
    found = []
    for name in log.context.disk.listdir(log.directory):
        offset = names.offset_of(name) if name.endswith(names.SNAPSHOT) else None
        if offset is not None:
            found.append(offset)
    return sorted(found)


def reload_producers(
    log: Log, now: int, *, snapshot_max: int | None = None, trust_absence: bool = False
) -> None:
    """Rebuild the producers from the newest good snapshot in the log, and what came after it.

    Snapshots above the end describe what was cut off, and go. With `snapshot_max` no newer one is
    used, and the aborted transactions that end after it are entered into their segments' indexes
    again: recovery emptied those. After a clean stop a log without snapshots had no producers
    (`trust_absence`): nothing needs to be read.
    """
    log.producers.clear()
    offsets = snapshot_offsets(log)
    for offset in offsets:
        if offset > log.end:
            log.context.disk.remove(_path(log, offset))
    newest = log.end if snapshot_max is None else snapshot_max
    usable = [offset for offset in offsets if log.start <= offset <= newest]
    if trust_absence and not usable:
        return
    from_offset = _load_newest(log, usable, now)
    for head, data in log.batches(from_offset) if from_offset < log.end else ():
        if head.last_offset >= from_offset:  # the log may start within a batch
            completed = log.producers.replay(data, 0, head)
            if (
                snapshot_max is not None
                and completed is not None
                and completed.is_aborted
                and completed.last_offset >= snapshot_max  # those before are in their indexes
            ):
                note_aborted(log, completed)


def _load_newest(log: Log, offsets: list[int], now: int) -> int:
    """Load the newest snapshot that is whole; answers where to go on, the log's start if none."""
    for offset in reversed(offsets):
        path = _path(log, offset)
        try:
            data = log.context.disk.read_bytes(path)
            log.producers.load(data, now, log.context.producer_expiration_ms)
        except CorruptSnapshot as error:
            logger.warning("dropping %s: %s", path, error)
            log.context.disk.remove(path)
        else:
            return offset
    return log.start


def _path(log: Log, offset: int) -> str:
    return os.path.join(log.directory, names.stem(offset) + names.SNAPSHOT)
