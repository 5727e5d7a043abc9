"""Records on their way to the dead-letter topic: a few at a time, and as patient as it takes."""

from __future__ import annotations

from collections import deque

from penstock.coordination.delivery.effects import DeadLetter, Outcome, Reason
from penstock.coordination.delivery.window import Run

_LETTERS_MAX = 4
"""On their way at the same time."""
_LETTER_RECORDS_MAX = 500
_RETRY_MS_MIN = 500
_RETRY_MS_MAX = 30_000


class Burials:
    """The letters of one machine; how many wait is bounded by what may be in flight."""

    __slots__ = ("_on_their_way", "_waiting", "retry_ms")

    def __init__(self) -> None:
        self._waiting: deque[DeadLetter] = deque()
        self._on_their_way = 0
        self.retry_ms = _RETRY_MS_MIN
        """How long to wait after a failure. The reason is seldom one record's alone (the topic is
        missing, its leader away), so all share one patience."""

    def add(self, run: Run, count_max: int) -> None:
        """Bury a run that the share coordinator knows as given up."""
        reason = run.reason if run.reason is not None else likely(run.count, count_max)
        for first in range(run.first, run.last + 1, _LETTER_RECORDS_MAX):
            last = min(run.last, first + _LETTER_RECORDS_MAX - 1)
            self._waiting.append(DeadLetter(first, last, run.count, reason))

    def go(self, start: int, out: Outcome) -> None:
        """Let go as many letters as may be on their way, but none of records that are gone."""
        while self._waiting and self._on_their_way < _LETTERS_MAX:
            letter = self._waiting.popleft()
            if letter.last >= start:
                out.dead.append(letter._replace(first=max(letter.first, start)))
                self._on_their_way += 1

    def ended(self, buried: bool) -> None:
        """A letter is there, or has failed."""
        self._on_their_way = max(0, self._on_their_way - 1)
        self.retry_ms = _RETRY_MS_MIN if buried else min(2 * self.retry_ms, _RETRY_MS_MAX)


def likely(count: int, count_max: int) -> Reason:
    """Why a record was given up, by its count: the share coordinator keeps no reasons."""
    if count >= count_max:
        return Reason.DELIVERIES
    return Reason.REJECTED if count else Reason.EXPIRED
