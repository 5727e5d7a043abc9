"""State batches of one key: sorted, never overlapping, and changed by what leaders write.

Where a new batch meets one that is held, the further one stands: more deliveries, then the later
state, then the newer of two that say the same (only their waits differ). A write that was repeated,
or that comes late, changes nothing. This is what Apache's coordinator makes of the same writes.

There, no more offsets lie between the start and the end than may be in flight. Here one record that
waits for its back-off may have very many behind it that are done with, in this way or that, after
one delivery or three. Nobody asks any more which: where there are many batches, such neighbours
become one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise

from penstock.coordination.delivery.effects import StateBatch
from penstock.coordination.delivery.states import DONE

MANY = 5_000
"""Batches after which neighbours that are done with become one."""

ANY = -1
"""Stands for a beginning that is not known: nothing lies below it."""


def merge(held: list[StateBatch], new: Iterable[StateBatch], start: int) -> None:
    """Change the held batches by new ones, and forget what lies below `start`."""
    for batch in _apart([it for it in new if it.last >= start]):
        _put(held, batch)
    _cut(held, start)
    if len(held) > MANY:
        _fuse(held)


def merged(new: Iterable[StateBatch], start: int) -> list[StateBatch]:
    """New batches by themselves: in order, and without overlaps."""
    held: list[StateBatch] = []
    merge(held, new, start)
    return held


def _apart(new: list[StateBatch]) -> list[StateBatch]:
    """New batches among themselves: in order, and the later one stands where two say the same.

    Mostly they are so already. If not, a sweep keeps the time in bounds: laid over one another, a
    few hundred wide ones would touch all that is held a few hundred times.
    """
    if all(one.last < other.first for one, other in pairwise(new)):
        return new
    row = _Row()
    coming = sorted(
        ((it.first, -it.count, -it.state, -at, it) for at, it in enumerate(new)), reverse=True
    )
    here: list[tuple[int, int, int, StateBatch]] = []
    """Those that cover the offset of the sweep, and some that did; first the one that stands."""
    offset = 0
    while coming or here:
        if not here:
            offset = coming[-1][0]
        while coming and coming[-1][0] <= offset:
            heappush(here, coming.pop()[1:])
        stands = here[0][3]
        if stands.last < offset:
            heappop(here)
            continue
        end = min(stands.last, coming[-1][0] - 1) if coming else stands.last
        row.add(stands, offset, end)
        offset = end + 1
    return row.pieces


def _cut(held: list[StateBatch], start: int) -> None:
    """Drop what is done with; a batch that reaches over the beginning keeps its later part."""
    del held[: bisect_left(held, start, key=_last)]
    if held and held[0].first < start:
        held[0] = held[0]._replace(first=start)


def _fuse(held: list[StateBatch]) -> None:
    """Make one of neighbours that are done with: the further of them stands for all."""
    kept: list[StateBatch] = []
    for batch in held:
        before = kept[-1] if kept else None
        if (
            before is not None
            and before.last + 1 == batch.first
            and before.state in DONE
            and batch.state in DONE
        ):
            kept[-1] = max(before, batch, key=_rank)._replace(first=before.first, last=batch.last)
        else:
            kept.append(batch)
    held[:] = kept


def _put(held: list[StateBatch], batch: StateBatch) -> None:
    """Lay one batch into the row, over or under what is there."""
    # Neighbours that only touch belong to the piece: they may say the same.
    begin = bisect_left(held, batch.first - 1, key=_last)
    end = bisect_right(held, batch.last + 1, key=_first)
    if begin == end:
        held.insert(begin, batch)
        return
    row = _Row()
    at = batch.first
    for other in held[begin:end]:
        row.add(other, other.first, min(other.last, batch.first - 1))
        row.add(batch, at, min(other.first - 1, batch.last))
        common = max(other.first, batch.first), min(other.last, batch.last)
        row.add(batch if _rank(batch) >= _rank(other) else other, *common)
        row.add(other, max(other.first, batch.last + 1), other.last)
        at = max(at, common[1] + 1)
    row.add(batch, at, batch.last)
    held[begin:end] = row.pieces


class _Row:
    """Pieces in order; two that touch and say the same become one."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[StateBatch] = []

    def add(self, like: StateBatch, first: int, last: int) -> None:
        """Append the offsets of a batch from `first` to `last`, if there are any."""
        if first > last:
            return
        if self.pieces:
            before = self.pieces[-1]
            if before.last + 1 == first and before[2:] == like[2:]:
                self.pieces[-1] = before._replace(last=last)
                return
        self.pieces.append(like._replace(first=first, last=last))


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.count, batch.state


def _first(batch: StateBatch) -> int:
    return batch.first


def _last(batch: StateBatch) -> int:
    return batch.last
