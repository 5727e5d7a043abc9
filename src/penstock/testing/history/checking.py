"""Running the checks."""

from __future__ import annotations

from penstock.testing.history.checks import ALL
from penstock.testing.history.history import History
from penstock.testing.history.report import report
from penstock.testing.history.verdict import Check, Verdict


class Unsound(AssertionError):
    """A history breaks a promise; the message is the report, `verdicts` has it in pieces."""

    def __init__(self, text: str, verdicts: list[Verdict]) -> None:
        super().__init__(text)
        self.verdicts = verdicts


def find(history: History, *checks: Check) -> list[Verdict]:
    """All that these checks find wrong; without any given, all that there are."""
    return [verdict for each in checks or ALL for verdict in each(history)]


def check(history: History, *more: Check) -> None:
    """Raise `Unsound` if a history breaks any promise, or one of those given besides."""
    verdicts = find(history, *ALL, *more)
    if verdicts:
        raise Unsound(report(history, verdicts), verdicts)
