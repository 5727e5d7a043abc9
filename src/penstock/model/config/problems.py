"""What can be wrong with a configuration, as errors that say key, value and expectation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

REASON_LENGTH_MAX = 1000
QUOTE_LENGTH_MAX = 100


def shortened(text: str, length_max: int = QUOTE_LENGTH_MAX) -> str:
    """The text, or its beginning and three dots."""
    return text if len(text) <= length_max else f"{text[: length_max - 3]}..."


class InvalidConfig(ValueError):
    """One value that its key does not take, or two that do not go together.

    On the wire its text is the message of the error that `error` names: nearly always
    INVALID_CONFIG, and INVALID_REQUEST where Kafka blames the request instead.
    """

    def __init__(self, reason: str, key: str = "", error: str = "INVALID_CONFIG") -> None:
        # What was sent may be huge, and the answer quotes it.
        self.reason = shortened(reason, REASON_LENGTH_MAX)
        super().__init__(self.reason)
        self.key = key
        self.error = error


def bad_value(key: str, value: object, expected: str) -> InvalidConfig:
    """The error for a value that its key does not take."""
    quoted = shortened(str(value))
    return InvalidConfig(f"Invalid value {quoted} for configuration {key}: {expected}", key)


class Problem(NamedTuple):
    """One thing to correct in a configuration file. Line 0: no line is to blame."""

    key: str
    reason: str
    line: int = 0
    nearest: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"{where}{self.reason}{hint}"


class ConfigProblems(ValueError):
    """Everything that is wrong with a configuration, reported together."""

    def __init__(self, problems: Iterable[Problem], source: str = "configuration") -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        self.source = source
        count = len(self.problems)
        head = f"{source} has {count} problem{'' if count == 1 else 's'}:"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in self.problems)]))
