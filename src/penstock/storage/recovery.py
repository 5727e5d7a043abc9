"""Opening a log that is on disk: finish what was interrupted, trust what may be trusted.

After a clean stop all files are as they should be, and only the end of the last segment is looked
up. After anything else, segments from the recovery point on are read through: what is torn or
rotten is cut off together with everything behind it, and indexes, epochs and producers are made
anew from the batches. Below the recovery point everything was synced before the checkpoint said
so, and is trusted as after a clean stop.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left

from penstock.model.ids import TopicPartition
from penstock.storage import names
from penstock.storage.context import LogContext
from penstock.storage.delay_snapshots import reload_delays
from penstock.storage.epochs import FILE_NAME as EPOCHS_FILE
from penstock.storage.epochs import CorruptEpochs, parse_epochs
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.producer_reload import reload_producers
from penstock.storage.scan import Scan, scan_segment
from penstock.storage.segment import CorruptSegment, Segment, base_of
from penstock.storage.txn_index import CorruptTxnIndex, check_index

logger = logging.getLogger(__name__)


def load_log(
    context: LogContext,
    partition: TopicPartition,
    topic_id: bytes,
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int = 0,
    start: int = 0,
    now: int,
) -> Log:
    """The log in `directory`. `recovery_point` and `start` are what the checkpoints say.

    On any thread, as long as nobody else uses the log yet. The log holds no descriptor afterwards.
    """
    files = finish_swaps(context, directory)
    segments = _list_segments(context, directory, files, start, now)
    scans: list[Scan] = []
    trusted = len(segments) - 1
    if not clean:
        # If the segment with the last durable batch was sealed since, its indexes may have been
        # lost: nobody had synced them.
        trusted = max(bisect_left(segments, recovery_point, key=base_of) - 1, 0)
    rotten = _first_rotten(segments, files)
    if rotten is not None and rotten <= trusted:
        trusted, clean = rotten, False
    for segment in segments[:trusted]:
        _check_index_files(segment, files, config)
    first_scanned = segments[trusted].base
    end = _end_after_clean_stop(segments[-1]) if clean else None
    if end is None:
        clean = False
        segments, scans = _scan_from(context, segments, trusted, config)
        end = scans[-1].end
    if end < start:
        # The log start was moved past what survived: the records up to there were deleted.
        for segment in segments:
            _remove(context, segment)
        segments = [Segment.create(context.disk, directory, start, now)]
        scans, end = [], start
    epochs = _read_epochs(context, directory, files)
    log = Log(
        context,
        partition,
        topic_id,
        directory,
        config,
        segments,
        start=max(start, segments[0].base),
        end=end,
        recovery_point=end if clean else min(recovery_point, end),
        epochs_text=epochs or None,
        names_synced=clean,
    )
    log.has_aborted = any(name.endswith(names.TXN_INDEX) for name in files)
    _restore_epochs(log, from_batches=epochs is None, scans=scans)
    snapshots = [name for name in files if name.endswith(names.SNAPSHOT)]
    if snapshots:
        _remove_stray_snapshots(log, snapshots)
    if clean:
        if snapshots:
            reload_producers(log, now, trust_absence=True)
    elif snapshots or any(scan.has_producers for scan in scans):
        reload_producers(log, now, snapshot_max=max(first_scanned, log.start))
    if any(name.endswith(names.DELAYED) for name in files):
        reload_delays(log, snapshot_max=None if clean else max(first_scanned, log.start))
    elif any(scan.has_controls for scan in scans):
        reload_delays(log)
    for segment in log.segments:
        segment.file.release()
    return log


def _end_after_clean_stop(active: Segment) -> int | None:
    """The end of the log if its last batches are sound; None if somebody meddled with the file."""
    try:
        return active.read_end()
    except CorruptSegment as error:
        logger.error("%s: it was closed cleanly, but is rotten now: reading it through", error)
        return None


def finish_swaps(context: LogContext, directory: str) -> set[str]:
    """Complete or undo a replacement of segments that a crash interrupted; answers the files left.

    `.deleted` and `.cleaned` files go: the first were given up, the second never became valid.
    `.swap` files are whole and synced: they take the place of the segments they cover. A `.swap`
    at or above a `.cleaned` belongs to a split that was not complete, and goes too.
    """
    disk = context.disk
    files = set(disk.listdir(directory))
    marked = [n for n in files if n.endswith((names.DELETED, names.CLEANED, names.SWAP))]
    if not marked:
        return files
    cleaned = [names.offset_of(n) for n in marked if n.endswith(names.CLEANED)]
    first_cleaned = min((each for each in cleaned if each is not None), default=None)
    swaps = []
    for name in marked:
        offset = names.offset_of(name)
        undone = first_cleaned is not None and offset is not None and offset >= first_cleaned
        if name.endswith(names.SWAP) and offset is not None and not undone:
            swaps.append((offset, name))
        elif not name.endswith(".checkpoint" + names.DELETED):  # Raft removes its own
            disk.remove(os.path.join(directory, name))
    covered = [_range_of_swap(context, directory, *each) for each in swaps]
    for name in disk.listdir(directory) if swaps else ():
        offset = names.offset_of(name)
        if offset is None or not name.endswith(names.SEGMENT_SUFFIXES):
            continue
        if any(low <= offset < high for low, high in covered):
            disk.remove(os.path.join(directory, name))
    for _, name in swaps:
        path = os.path.join(directory, name)
        disk.rename(path, path.removesuffix(names.SWAP))
    return set(disk.listdir(directory))


def _range_of_swap(context: LogContext, directory: str, base: int, name: str) -> tuple[int, int]:
    """The offsets whose old segments a swapped-in segment replaces."""
    if not name.endswith(names.LOG + names.SWAP):
        return base, base
    file = context.disk.open(os.path.join(directory, name))
    segment = Segment(context.disk, directory, base, file, 0)
    end = base + 1
    for _, head in segment.heads(0):
        end = head.base_offset + head.last_offset_delta + 1
    file.close()
    return base, end


def _list_segments(
    context: LogContext,
    directory: str,
    files: set[str],
    start: int,
    now: int,
) -> list[Segment]:
    disk = context.disk
    bases = []
    for name in files:
        offset = names.offset_of(name) if name.endswith(names.LOG) else None
        if offset is not None:
            bases.append(offset)
    if not bases:
        return [Segment.create(disk, directory, start, now)]
    bases.sort()
    known = set(bases)
    for name in files:
        if name.endswith((names.INDEX, names.TIME_INDEX, names.TXN_INDEX)):
            offset = names.offset_of(name)
            if offset is not None and offset not in known:
                logger.warning("removing %s: its log is gone", os.path.join(directory, name))
                disk.remove(os.path.join(directory, name))
    segments = []
    for base in bases:
        name = names.stem(base) + names.LOG
        file = disk.open(f"{directory}/{name}")
        segments.append(Segment(disk, directory, base, file, now))
    active = segments[-1]
    if not active.size and names.stem(active.base) + names.TIME_INDEX in files:
        active.index.offsets_written = active.index.times_written = 0
    return segments


def _check_index_files(segment: Segment, files: set[str], config: LogConfig) -> None:
    """What can be told from the sizes: the rest is checked when the index is used."""
    stem = names.stem(segment.base)
    size_of = segment.disk.size_of
    if (
        stem + names.INDEX not in files
        or stem + names.TIME_INDEX not in files
        or size_of(segment.path(names.INDEX)) % 8
        or size_of(segment.path(names.TIME_INDEX)) % 12
    ):
        logger.warning("rebuilding the index of %s: missing, or cut short", segment.file.path)
        segment.rebuild_index(config.index_interval_bytes)
        segment.drop_index()
        segment.file.release()


def _first_rotten(segments: list[Segment], files: set[str]) -> int | None:
    """The number of the first segment whose transaction index cannot be right; None if all can.

    Most segments have none. Without it, what was aborted would be read as committed.
    """
    for number, segment in enumerate(segments):
        if names.stem(segment.base) + names.TXN_INDEX in files:
            try:
                check_index(segment.disk.read_bytes(segment.path(names.TXN_INDEX)), segment.base)
            except CorruptTxnIndex as error:
                logger.warning("%s: reading the log through: %s", segment.file.path, error)
                return number
    return None


def _scan_from(
    context: LogContext, segments: list[Segment], at: int, config: LogConfig
) -> tuple[list[Segment], list[Scan]]:
    """Read segments through from number `at` on; answers those that remain, and what they hold."""
    scans = []
    for number in range(at, len(segments)):
        segment = segments[number]
        scan = scan_segment(segment.file, segment.base, config.index_interval_bytes)
        scans.append(scan)
        is_cut = scan.size < segment.file.size
        if is_cut:
            logger.warning(
                "%s: cutting %d bytes at %d, offset %d: %s",
                segment.file.path,
                segment.file.size - scan.size,
                scan.size,
                scan.end,
                scan.why,
            )
            segment.file.truncate(scan.size)
            segment.file.sync()  # the log goes on behind the cut, and may seal it unsynced
        segment.max_timestamp = scan.max_timestamp
        segment.max_timestamp_offset = scan.max_timestamp_offset
        segment.use_index(scan.index)
        context.disk.remove(segment.path(names.TXN_INDEX))
        rest = segments[number + 1 :]
        # A segment that begins before this one ends was cut off once, and its name came back.
        overlaps = bool(rest) and rest[0].base < scan.end
        if is_cut or rest:
            segment.write_index()
        if is_cut or overlaps:
            for each in rest:
                logger.warning(
                    "%s: dropping it, it does not go on where the log ends", each.file.path
                )
                _remove(context, each)
            return segments[: number + 1], scans
        if rest:
            segment.drop_index()
            segment.file.release()
    return segments, scans


def _remove(context: LogContext, segment: Segment) -> None:
    for path in segment.remark(names.DELETED, snapshot=True):
        context.disk.remove(path)
    segment.close()


def _read_epochs(context: LogContext, directory: str, files: set[str]) -> str | None:
    """The text of the epoch checkpoint: empty if there is none, None if the batches know better."""
    if EPOCHS_FILE not in files:
        return ""
    path = os.path.join(directory, EPOCHS_FILE)
    try:
        text = context.disk.read_bytes(path).decode()
        if not text:
            return None  # Apache Kafka makes the file with the log, and writes to it later
        parse_epochs(text)
    except (CorruptEpochs, UnicodeDecodeError) as error:
        logger.warning("%s: %s; reading the epochs from the batches", path, error)
        return None
    return text


def _restore_epochs(log: Log, *, from_batches: bool, scans: list[Scan]) -> None:
    """Add to the checkpoint's epochs what the batches say, and cut off what left the log."""
    found = [each for scan in scans for each in scan.epochs]
    if from_batches:
        found = [(head.leader_epoch, head.base_offset) for head, _ in log.batches(log.start)]
    for epoch, offset in found:
        if epoch > log.epochs.latest:
            log.epochs.assign(epoch, offset)
    log.epochs.truncate_from_end(log.end)
    log.epochs.truncate_from_start(log.start)


def _remove_stray_snapshots(log: Log, snapshots: list[str]) -> None:
    """Keep those at the beginning of a segment, and the newest: nobody would use the others."""
    offsets = sorted(each for each in map(names.offset_of, snapshots) if each is not None)
    wanted = {segment.base for segment in log.segments}
    for offset in offsets[:-1]:
        if offset not in wanted:
            log.context.disk.remove(f"{log.directory}/{names.stem(offset)}{names.SNAPSHOT}")
