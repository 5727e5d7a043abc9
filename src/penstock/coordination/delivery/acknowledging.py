"""What a member says about the records that it holds, checked before any of it counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.coordination.delivery.effects import AckBatch, Acknowledge
from penstock.coordination.delivery.states import State
from penstock.coordination.delivery.window import Window
from penstock.model.errors import ErrorCode

_WORDS = frozenset(Acknowledge)


class Said(NamedTuple):
    """One word about neighbouring offsets."""

    first: int
    last: int
    word: int


def understood(batches: Sequence[AckBatch]) -> list[Said] | None:
    """What a member said, in as few pieces as can be; None if it makes no sense.

    The work is bounded by the words that came over the wire, however long the ranges are.
    """
    pieces: list[Said] = []
    end = 0
    for first, last, words in batches:
        if first < end or last < first or not words or not _WORDS.issuperset(words):
            return None
        end = last + 1
        if len(words) == 1:
            _add(pieces, first, last, words[0])
        elif len(words) != end - first:
            return None
        else:
            _add_each(pieces, first, words)
    return pieces


def _add(pieces: list[Said], first: int, last: int, word: int) -> None:
    if pieces and pieces[-1].word == word and pieces[-1].last == first - 1:
        pieces[-1] = Said(pieces[-1].first, last, word)
    else:
        pieces.append(Said(first, last, word))


def _add_each(pieces: list[Said], first: int, words: Sequence[int]) -> None:
    begin = 0
    for at in range(1, len(words) + 1):
        if at == len(words) or words[at] != words[begin]:
            _add(pieces, first + begin, first + at - 1, words[begin])
            begin = at


def refusal(window: Window, member: str, said: Sequence[Said], renewable: bool) -> ErrorCode | None:
    """Why none of it counts, if so. What lies below the window is done with: whatever anybody says
    about it is fine."""
    if said and said[-1].last >= window.end:
        # With nothing in flight there is nothing to be past of.
        return ErrorCode.INVALID_REQUEST if window.runs else ErrorCode.INVALID_RECORD_STATE
    for first, last, word in said:
        if last < window.start:
            continue
        if word == Acknowledge.RENEW and not renewable:
            return ErrorCode.INVALID_RECORD_STATE
        for run in window.over(first, last):
            if run.state is not State.ACQUIRED or run.ticket or run.member != member:
                return ErrorCode.INVALID_RECORD_STATE
    return None
