"""Offsets at which a reader found nothing for the group, before and between what it found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.coordination.delivery.effects import Reason, Span
from penstock.coordination.delivery.states import State
from penstock.coordination.delivery.window import Run, Window


class Hole(NamedTuple):
    """Offsets that nobody is to get, and what becomes of them."""

    first: int
    last: int
    state: State
    """ARCHIVED, or ARCHIVING for records that have expired and are buried."""


def gaps(read_from: int, found: Sequence[Span]) -> list[Hole]:
    """Offsets from `read_from` on at which there are no records any more, or never were."""
    missing = []
    for first, last in found:
        if first > read_from:
            missing.append(Hole(read_from, first - 1, State.ARCHIVED))
        read_from = last + 1
    return missing


def all_holes(
    missing: Sequence[Hole], skip: Sequence[Span], expired: Sequence[Span], buries: bool
) -> list[Hole]:
    """All that nobody is to get, in order and none over another."""
    late = State.ARCHIVING if buries else State.ARCHIVED
    holes = [
        *missing,
        *(Hole(first, last, State.ARCHIVED) for first, last in skip),
        *(Hole(first, last, late) for first, last in expired),
    ]
    result: list[Hole] = []
    for hole in sorted(holes, key=_rank):
        below = result[-1].last if result else -1
        if hole.last > below:
            result.append(hole._replace(first=max(hole.first, below + 1)))
    return result


def _rank(hole: Hole) -> tuple[int, bool]:
    # What was never to be seen is not buried, however old it is.
    return hole.first, hole.state is State.ARCHIVING


def pieces(holes: Sequence[Hole], first: int, last: int) -> Iterator[Hole]:
    """The offsets first to last, holes and what is between them, which is AVAILABLE."""
    for hole in holes:
        if hole.last < first:
            continue
        if hole.first > last:
            break
        if hole.first > first:
            yield Hole(first, hole.first - 1, State.AVAILABLE)
        yield Hole(max(hole.first, first), min(hole.last, last), hole.state)
        first = hole.last + 1
    if first <= last:
        yield Hole(first, last, State.AVAILABLE)


def drop(window: Window, holes: Sequence[Hole], lowest: int) -> list[Run]:
    """Have done with what was read before and lies in holes, as far as nobody has it; what comes
    back is to be buried."""
    buried: list[Run] = []
    for first, last, state in holes:
        first = max(first, lowest)
        if first > last or not (runs := window.over(first, last)):
            continue
        for run in runs:
            if _is_idle(run):
                window.cut((max(first, run.first), min(last, run.last) + 1))
        for run in window.over(first, last):
            if _is_idle(run):
                lose(window, run, state)
                if state is State.ARCHIVING:
                    buried.append(run)
    return buried


def lose(window: Window, run: Run, state: State) -> None:
    """Give a run up that was not delivered."""
    run.state = state
    if state is State.ARCHIVED:
        window.close(run)
    else:
        run.due = 0
        run.reason = Reason.EXPIRED


def _is_idle(run: Run) -> bool:
    """Also what waits for its back-off: nobody holds it, and nobody can get it any more."""
    return run.state is State.AVAILABLE and not run.ticket
