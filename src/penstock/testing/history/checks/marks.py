"""How far partitions have come: what is visible stays visible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.testing.history.history import History
from penstock.testing.history.operations import UNSET, Marks, Operation, Place, Poll
from penstock.testing.history.verdict import Check, Verdict

STABLE_ABOVE = "the last stable offset is at most the high watermark"
STABLE_BACK = "the last stable offset never goes back"
HIGH_BACK = "the high watermark never goes back"
STABLE_STUCK = "the last stable offset moves on"

SECOND = 1_000_000_000


class _Seen(NamedTuple):
    """Somebody learnt how far a partition had come: so far exactly, or at least so far."""

    value: int
    exact: bool
    operation: Operation


def last_stable_stays_below(history: History) -> Iterator[Verdict]:
    """What is decided is committed to the log: never the other way round."""
    for marks in history.marks:
        if marks.last_stable > marks.high_watermark != UNSET:
            says = (
                f"{marks.place} had its last stable offset at {marks.last_stable}, and its high "
                f"watermark at {marks.high_watermark}"
            )
            yield Verdict(STABLE_ABOVE, says, (marks,), marks.place, marks.high_watermark)


def last_stable_never_goes_back(history: History) -> Iterator[Verdict]:
    """What readers of committed transactions could see once, they can see always."""
    for place in history.places:
        yield from _falls(STABLE_BACK, "last stable offset", place, _stable(history, place))


def high_watermark_never_goes_back(history: History) -> Iterator[Verdict]:
    """What readers could see once, they can see always."""
    for place in history.places:
        yield from _falls(HIGH_BACK, "high watermark", place, _high(history, place))


def last_stable_moves_on(seconds_max: float) -> Check:
    """Make a check: no transaction holds readers back for longer than this.

    Give it the transactions' time-out and some slack, and a history that looks at the marks now
    and then.
    """

    def check(history: History) -> Iterator[Verdict]:
        first: dict[Place, Marks] = {}
        for marks in history.marks:
            since = first.get(marks.place)
            held = UNSET < marks.last_stable < marks.high_watermark
            if since is None or not held or marks.last_stable != since.last_stable:
                first[marks.place] = marks
            elif marks.began - since.ended > seconds_max * SECOND:
                says = (
                    f"the last stable offset of {marks.place} stood at {marks.last_stable} for "
                    f"{(marks.began - since.ended) / SECOND:.1f} s, below the high watermark"
                )
                yield Verdict(STABLE_STUCK, says, (since, marks), marks.place, marks.last_stable)
                first[marks.place] = marks

    return check


def _high(history: History, place: Place) -> list[_Seen]:
    marks = [each for each in _marks(history, place) if each.high_watermark != UNSET]
    seen = [_Seen(each.high_watermark, True, each) for each in marks]
    seen += [_Seen(each.end, each.at_end, each) for each in _polls(history, place, False)]
    seen += [_Seen(each.end, False, each) for each in _polls(history, place, True)]
    return seen


def _stable(history: History, place: Place) -> list[_Seen]:
    marks = [each for each in _marks(history, place) if each.last_stable != UNSET]
    seen = [_Seen(each.last_stable, True, each) for each in marks]
    seen += [_Seen(each.end, each.at_end, each) for each in _polls(history, place, True)]
    return seen


def _marks(history: History, place: Place) -> list[Marks]:
    return [each for each in history.marks if each.place == place]


def _polls(history: History, place: Place, committed: bool) -> list[Poll]:
    return history.view(place, committed=committed).polls


def _falls(name: str, what: str, place: Place, seen: list[_Seen]) -> Iterator[Verdict]:
    by_end = sorted(seen, key=lambda each: each.operation.ended)
    highest: _Seen | None = None
    at = 0
    for each in sorted(seen, key=lambda each: each.operation.began):
        while at < len(by_end) and by_end[at].operation.ended < each.operation.began:
            if highest is None or by_end[at].value > highest.value:
                highest = by_end[at]
            at += 1
        if each.exact and highest is not None and each.value < highest.value:
            says = f"the {what} of {place} was {highest.value} and then {each.value}"
            operations = (highest.operation, each.operation)
            yield Verdict(name, says, operations, place, each.value)
