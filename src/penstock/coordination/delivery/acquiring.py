"""Handing records out: what a member gets of the batches that a reader found."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from penstock.coordination.delivery.effects import Acquired, Reason, Span
from penstock.coordination.delivery.holes import Hole, pieces
from penstock.coordination.delivery.states import State
from penstock.coordination.delivery.window import Run, Window
from penstock.model.ids import Millis

_SUSPECT_COUNT_MIN = 2
"""A record that came back once is no suspect, however few deliveries the group allows."""


class Asking(NamedTuple):
    """Who asks, and for how much."""

    member: str
    lock_due: int
    """The monotonic time at which the member's lock ends."""
    records_max: int
    strict: bool
    """Whether never more than `records_max`, even if that parts a batch of the log."""
    count_max: int
    """How often the group delivers a record."""


def take_known(
    window: Window, asking: Asking, found: Sequence[Span], lowest: int
) -> tuple[list[Run], int]:
    """Lock what is free of the batches and was read before; and how many records more the member
    may have.

    Records that came back too often are suspects: one of them may be what brings its consumers
    down, and the others perish with it. So they go out with ever fewer others, the last time
    alone, and only the culprit is given up in the end.
    """
    taken: list[Run] = []
    left = asking.records_max
    highest = min(found[-1].last, window.end - 1)
    suspect_from = max(_SUSPECT_COUNT_MIN, (asking.count_max + 1) // 2)
    index = window.find(lowest) if lowest <= highest else len(window.runs)
    while index < len(window.runs):
        run = window.runs[index]
        index += 1
        first, last = max(run.first, lowest), min(run.last, highest)
        if first > highest:
            break
        if not run.is_free:
            continue
        if is_suspect := run.count >= suspect_from:
            if taken:
                return taken, 0
            last = min(last, first + _company(run, asking.count_max) - 1)
        if last - first >= left:
            edge = first + left - 1
            last = edge if asking.strict else min(last, batch_last(found, edge))
        window.cut((first, last + 1))
        index = window.find(last) + 1
        run = window.runs[index - 1]
        lock(run, asking)
        taken.append(run)
        left -= run.size
        if left <= 0 or is_suspect:
            return taken, 0
    return taken, left


def _company(run: Run, count_max: int) -> int:
    """How many suspects go out together."""
    if count_max > _SUSPECT_COUNT_MIN and run.count >= count_max - 1:
        return 1
    return max(1, run.size // 2)


def take_fresh(
    window: Window,
    asking: Asking,
    found: Sequence[Span],
    holes: Sequence[Hole],
    limit: int,
    taken: list[Run],
    buried: list[Run],
) -> None:
    """Lock what nobody has read before, beginning at the end of the window. It joins what is
    `taken`; what lies in holes there and is to be buried joins what is `buried`."""
    first, last = window.end, found[-1].last
    if limit <= 0 or last < first:
        return
    if last - first >= limit:
        last = _edge(found, holes, first, limit, asking.strict)
    if not holes:
        run = Run(first, last, State.ACQUIRED, 1, asking.member, asking.lock_due)
        window.append(run)
        taken.append(run)
        return
    for piece in pieces(holes, first, last):
        run = Run(piece.first, piece.last, piece.state, 0)
        if piece.state is State.AVAILABLE:
            lock(run, asking)
            taken.append(run)
        elif piece.state is State.ARCHIVING:
            run.reason = Reason.EXPIRED
            buried.append(run)
        window.append(run)


def lock(run: Run, asking: Asking) -> None:
    """Give a run to the member."""
    run.state = State.ACQUIRED
    run.count += 1
    run.member = asking.member
    run.due = asking.lock_due
    run.not_before = Millis(0)


def _edge(
    found: Sequence[Span], holes: Sequence[Hole], first: int, limit: int, strict: bool
) -> int:
    """Up to which offset, from `first` on, there are `limit` records: to the end of their batch
    if it need not be parted."""
    for piece in pieces(holes, first, found[-1].last):
        if piece.state is not State.AVAILABLE:
            continue
        size = piece.last - piece.first + 1
        if size >= limit:
            edge = piece.first + limit - 1
            return edge if strict else batch_last(found, edge)
        limit -= size
    return found[-1].last


def _last_of(span: Span) -> int:
    return span.last


def batch_last(found: Sequence[Span], offset: int) -> int:
    """Where the batch of the log ends that has the offset, or the first one after it."""
    return found[bisect_left(found, offset, key=_last_of)].last


def ranges(taken: Sequence[Run], found: Sequence[Span], batch_size: int) -> list[Acquired]:
    """What a member is told that it got: neighbours with one count as one range, in pieces that
    end with a batch of the log at or after `batch_size` records."""
    result: list[Acquired] = []
    at = 0
    while at < len(taken):
        first, last, count = taken[at].first, taken[at].last, taken[at].count
        at += 1
        while at < len(taken) and taken[at].first == last + 1 and taken[at].count == count:
            last = taken[at].last
            at += 1
        while last - first >= batch_size:
            edge = batch_last(found, first + max(1, batch_size) - 1)
            if edge >= last:
                break
            result.append(Acquired(first, edge, count))
            first = edge + 1
        result.append(Acquired(first, last, count))
    return result
