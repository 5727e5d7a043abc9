"""What is wrong with a pipeline, told to the person who runs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a pipeline file something stands."""

    file: str
    line: int = 0
    path: str = ""
    """The keys that lead there, as in `sources.orders.topic`."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where} ({self.path})" if self.path else where


class Problem(Exception):
    """A mistake or a mishap that a user can act on: shown as it is, without a stack trace.

    `what` says what was wrong, `advice` what to do about it.
    """

    def __init__(self, what: str, advice: str = "", place: Place | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.place = place

    def __str__(self) -> str:
        front = f"{self.place}: " if self.place else ""
        return front + self.what + (f"\n  {self.advice}" if self.advice else "")


class Problems(Problem):
    """All that is wrong with a file at once, in its order."""

    def __init__(self, found: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(each) for each in found))
        self.found = found
