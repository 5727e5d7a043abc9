"""Log records as lines that nobody can forge.

Clients name groups, members and themselves, and may put line breaks and terminal codes into these
names. A message is therefore written on one line, whatever is in it, and what follows it (a
traceback) stands behind a mark, so that each line that begins with a time is one of ours.
"""

from __future__ import annotations

import logging

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MARK = "  | "


class OneLine(logging.Formatter):
    """Keeps messages on one line, and marks the lines of tracebacks."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        return _marked(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return _marked(super().formatStack(stack_info))


def one_line(text: str) -> str:
    """The text with all that is not to be printed written as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _marked(text: str) -> str:
    return "\n".join(_MARK + one_line(line) for line in text.splitlines())
