"""Which log to compact next, and how far. Decided on the event loop, from sizes and timestamps.

    clean (compacted before) | dirty, may be compacted | not yet
    log start                  first dirty               first uncleanable          log end

"Not yet" begins at the last stable offset, at the active segment, or at the first segment that has
records younger than `min.compaction.lag.ms`, whichever comes first, and always with a segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from penstock.model.ids import TopicPartition
from penstock.storage.compaction_filter import ActiveProducer, Round
from penstock.storage.log import Log
from penstock.storage.segment import RELATIVE_OFFSET_MAX, Segment

INDEX_ENTRY_SIZE = 12  # of a time index, the larger of the two


class Plan(NamedTuple):
    """One log that wants compaction."""

    log: Log
    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether records wait for longer than `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        """Of the bytes that a round would read, those that no round has read yet."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if not self.dirty_bytes:
            return False
        return self.overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def plan_of(log: Log, cleaned_to: int | None, now: int) -> Plan:
    """How dirty a log is, whose last round ended at `cleaned_to`."""
    first_dirty = log.start if cleaned_to is None else cleaned_to
    if not log.start <= first_dirty <= log.end:
        # Records were deleted from the start, or the end was lost: all of it may be dirty.
        first_dirty = log.start
    sealed = sealed_segments(log)
    dirty = [(segment, end) for segment, end in sealed if end > first_dirty]
    bound = _first_uncleanable(log, dirty, now)
    # Whole segments only: the one that holds the bound stays out.
    cleanable = [(segment, end) for segment, end in dirty if end <= bound]
    return Plan(
        log,
        first_dirty,
        cleanable[-1][1] if cleanable else first_dirty,
        sum(segment.size for segment, end in sealed if end <= first_dirty),
        sum(segment.size for segment, _ in cleanable),
        _is_overdue(log, cleanable, now),
    )


def dirtiest(
    logs: Iterable[Log], cleaned_to: Mapping[TopicPartition, int], now: int
) -> Plan | None:
    """Of compacted logs, the one that most wants a round now; None if none does."""
    plans = (plan_of(log, cleaned_to.get(log.topic_partition), now) for log in logs)
    return max((plan for plan in plans if plan.is_due), key=_urgency, default=None)


def round_of(plan: Plan, now: int) -> Round:
    """What the round needs to know of the log, taken now: workers must not look at it later."""
    active = {
        producer_id: ActiveProducer(producer.last_offset, producer.epoch)
        for producer_id, producer in plan.log.producers.by_id.items()
    }
    config = plan.log.config
    return Round(now, config.delete_retention_ms, plan.first_uncleanable, active)


def group_segments(log: Log, end: int) -> list[list[Segment]]:
    """The segments below `end` in runs that become one segment each, as far as they fit into one.

    Rounds leave segments smaller than they were; without grouping they would only ever multiply.
    """
    config = log.config
    index_room = (
        config.segment_index_bytes // INDEX_ENTRY_SIZE * max(config.index_interval_bytes, 1)
    )
    size_max = min(config.segment_bytes, index_room)
    groups: list[list[Segment]] = []
    size = 0
    for segment, segment_end in sealed_segments(log):
        if segment.base >= end:
            break
        span = segment_end - 1 - (groups[-1][0].base if groups else 0)
        if groups and size + segment.size <= size_max and span <= RELATIVE_OFFSET_MAX:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def sealed_segments(log: Log) -> list[tuple[Segment, int]]:
    """All segments but the active one, and where the next one begins."""
    segments = log.segments
    return [(segment, after.base) for segment, after in pairwise(segments)]


def _urgency(plan: Plan) -> tuple[bool, float]:
    return plan.overdue, plan.dirty_ratio


def _first_uncleanable(log: Log, dirty: list[tuple[Segment, int]], now: int) -> int:
    unstable = log.producers.first_unstable_offset
    bound = min(log.high_watermark, log.active.base)
    if unstable is not None:
        bound = min(bound, unstable)
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        for segment, _ in dirty:
            segment.load_max_timestamp()
            if segment.max_timestamp > now - lag:
                return min(bound, segment.base)
    return bound


def _is_overdue(log: Log, cleanable: list[tuple[Segment, int]], now: int) -> bool:
    lag = log.config.max_compaction_lag_ms
    if lag >= now:  # the default is forever
        return False
    return any(0 < segment.first_timestamp() < now - lag for segment, _ in cleanable)
