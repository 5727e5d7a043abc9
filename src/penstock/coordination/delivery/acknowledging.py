"""What a member says about the records that it holds, checked before any of it counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.coordination.delivery.effects import AckBatch, Acknowledge
from penstock.coordination.delivery.states import State
from penstock.coordination.delivery.window import Run, Window
from penstock.model.errors import ErrorCode

_WORDS = frozenset(Acknowledge)
_FINAL = _WORDS - {Acknowledge.RENEW}


Said = tuple[int, int, int]
"""First and last of neighbouring offsets, and one word about them. There can be one for each
record, so it is no more than a tuple."""


def understood(batches: Sequence[AckBatch]) -> list[Said] | None:
    """What a member said, in as few pieces as can be; None if it makes no sense.

    The work is bounded by the words that came over the wire, however long the ranges are.
    """
    pieces: list[Said] = []
    begin = end = 0
    word = -1
    for first, last, words in batches:
        if first < end or last < first or not words or not _WORDS.issuperset(words):
            return None
        if len(words) not in (1, last - first + 1):
            return None
        if first != end or words[0] != word:
            if word >= 0:
                pieces.append((begin, end - 1, word))
            begin, word = first, words[0]
        end = first
        for spoken in words if len(words) > 1 else ():
            if spoken != word:
                pieces.append((begin, end - 1, word))
                begin, word = end, spoken
            end += 1
        end = last + 1
    if word >= 0:
        pieces.append((begin, end - 1, word))
    return pieces


def exactly(window: Window, member: str, batches: Sequence[AckBatch]) -> Run | None:
    """The run that a member speaks of with one word, neither more nor less: the common case."""
    if len(batches) != 1:
        return None
    first, last, words = batches[0]
    if len(words) != 1 or not window.start <= first < window.end:
        return None
    run = window.runs[window.find(first)]
    if run.first != first or run.last != last or run.member != member:
        return None
    if run.state is not State.ACQUIRED or run.ticket or words[0] not in _FINAL:
        return None
    return run


def judged(
    window: Window, member: str, batches: Sequence[AckBatch], renewable: bool
) -> list[Said] | ErrorCode:
    """What a member said, or why none of it counts. What lies below the window is done with:
    whatever anybody says about it is fine."""
    said = understood(batches)
    if said is None:
        return ErrorCode.INVALID_REQUEST
    if said and said[-1][1] >= window.end:
        # With nothing in flight there is nothing to be past of.
        return ErrorCode.INVALID_REQUEST if window.runs else ErrorCode.INVALID_RECORD_STATE
    checked = window.start  # What lies below was looked at.
    for first, last, word in said:
        if word == Acknowledge.RENEW and not renewable and last >= window.start:
            return ErrorCode.INVALID_RECORD_STATE
        if last < checked:
            continue
        for run in window.over(max(first, checked), last):
            if run.state is not State.ACQUIRED or run.ticket or run.member != member:
                return ErrorCode.INVALID_RECORD_STATE
            checked = run.last + 1
    return said


def parts(window: Window, said: Sequence[Said]) -> Iterator[tuple[Run, int]]:
    """Runs of their own for all that was said, each with its word."""
    edges: list[int] = []
    for first, last, _ in said:
        if not edges or edges[-1] != first:
            edges.append(first)
        edges.append(last + 1)
    window.cut(edges)
    runs, index = window.runs, 0
    for first, last, word in said:
        if last < window.start:
            continue
        if index >= len(runs) or runs[index].first != first:
            index = window.find(max(first, window.start))
        while index < len(runs) and runs[index].last <= last:
            yield runs[index], word
            index += 1
