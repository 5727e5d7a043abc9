"""How a command fails: a status, what was wrong, and what to do about it.

A command raises `Failure`; `main` prints it on stderr and ends with its status.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

DONE = 0
REFUSED = 1
USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130
PIPE_CLOSED = 141

MEANINGS = {
    DONE: "done",
    REFUSED: "the work failed, in whole or in part: the cluster refused it, a record was not "
    "delivered, a file has faults",
    USAGE: "the command line is wrong, or the configuration of a node; nothing was done",
    UNREACHABLE: "no broker answered in time",
    INTERRUPTED: "interrupted with Ctrl-C",
    PIPE_CLOSED: "the reader of standard output went away, as `head` does",
}
"""Every exit status of the command, and what it tells a script."""


class Failure(Exception):
    """What was wrong, what to do about it (`hint`), and the status to end with."""

    def __init__(self, problem: str, hint: str = "", status: int = REFUSED) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.status = status

    def show(self) -> None:
        complain(self.problem)
        if self.hint:
            print(_painted("hint: ", "36", sys.stderr) + self.hint, file=sys.stderr)


class Failures:
    """Failures of a work of many parts, which goes on past each of them."""

    def __init__(self) -> None:
        self._all: list[Failure] = []

    def add(self, failure: Failure) -> None:
        self._all.append(failure)

    def extend(self, others: Failures) -> None:
        self._all += others._all

    def raise_any(self) -> None:
        """Show all that went wrong, and end with the status of the last."""
        if self._all:
            *rest, last = self._all
            for failure in rest:
                failure.show()
            raise last


def complain(problem: str) -> None:
    """Tell of an error on stderr, and go on."""
    print(_painted("error: ", "31;1", sys.stderr) + problem, file=sys.stderr)


def say(message: str) -> None:
    """Tell of progress on stderr: standard output is for data."""
    print(message, file=sys.stderr)


def coloured(stream: TextIO) -> bool:
    """Whether this stream is a terminal whose owner has not asked for plain text."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _painted(text: str, code: str, stream: TextIO) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if coloured(stream) else text
