"""Which segments are old enough, or too many, to go. Only whole segments go, from the oldest on."""

from __future__ import annotations

from penstock.storage.log import Log
from penstock.storage.segment import UNKNOWN, Segment


def retain(log: Log, now: int) -> int:
    """Delete what the log's configuration no longer keeps; answers how many segments went.

    Nothing at or above the high watermark goes. Below the log's start segments go under any
    cleanup policy; by time and size only where `delete` is one of them.
    """
    gone = _drop(log, _count_below_start(log), now)
    if log.config.cleanup_delete:
        delays = log.delays
        # Segments with delayed records that wait stay: a leader moves those first, if it pays.
        ceiling = log.high_watermark
        if delays is not None and expired_to(log, now) > log.start:
            ceiling = min(ceiling, delays.floor(log.high_watermark))
        gone += _drop(log, _count_by_time(log, now, ceiling), now)
        gone += _drop(log, _count_by_size(log, ceiling), now)
    return gone


def expired_to(log: Log, now: int) -> int:
    """Where the log would begin by time and size, if nothing in it waited to be delivered."""
    if not log.config.cleanup_delete:
        return log.start
    ceiling = log.high_watermark
    count = max(_count_by_time(log, now, ceiling), _count_by_size(log, ceiling))
    return _end_of(log, count - 1) if count else log.start


def _drop(log: Log, count: int, now: int) -> int:
    if count:
        log.drop_segments(count, now)
    return count


def _end_of(log: Log, number: int) -> int:
    segments = log.segments
    return segments[number + 1].base if number + 1 < len(segments) else log.end


def _count_below_start(log: Log) -> int:
    count = 0
    while count + 1 < len(log.segments) and _end_of(log, count) <= log.start:
        count += 1
    return count


def _may_go(log: Log, number: int, ceiling: int) -> bool:
    """An empty last segment stays: there is nothing in it, and a log needs one."""
    is_empty_last = number + 1 == len(log.segments) and not log.segments[number].size
    return not is_empty_last and _end_of(log, number) <= ceiling


def _count_by_time(log: Log, now: int, ceiling: int) -> int:
    keep_ms = log.config.retention_ms
    if keep_ms < 0:
        return 0
    count = 0
    for number, segment in enumerate(log.segments):
        if not _may_go(log, number, ceiling) or now - _youngest(segment) <= keep_ms:
            break
        count += 1
    return count


def _youngest(segment: Segment) -> int:
    """The youngest timestamp in the segment; if its records have none, when it was written."""
    if segment.max_timestamp == UNKNOWN:
        segment.load_max_timestamp()
    if segment.max_timestamp >= 0:
        return segment.max_timestamp
    return segment.disk.modified_ms(segment.file.path)


def _count_by_size(log: Log, ceiling: int) -> int:
    keep = log.config.retention_bytes
    if keep < 0:
        return 0
    excess = log.size - keep
    count = 0
    for number, segment in enumerate(log.segments):
        if excess < segment.size or not _may_go(log, number, ceiling):
            break
        excess -= segment.size
        count += 1
    return count
