"""Histories as files: one JSON object per line, written at once, so that a kill loses nothing.

An operation takes two lines, which share `client` and `op`:

    {"at": 1700000000000000000, "client": "a", "op": 1, "do": "send", "topic": "t", ...}
    {"at": 1700000000000300000, "client": "a", "op": 1, "is": "ok", "offset": 7}

or one, if nothing depends on its being known before it ends:

    {"began": ..., "at": ..., "client": "a", "op": 2, "do": "poll", "is": "ok", ...}

A second line that never comes leaves the operation unknown. All other keys are the fields of the
operation's class. Programs in other languages write the same lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from penstock.testing.history.operations import KINDS, Operation, Outcome, Poll

_COMMON = frozenset(("client", "number", "began", "ended", "outcome", "error", "place"))
_OWN = {
    kind: tuple(each.name for each in fields(kind) if each.name not in _COMMON)
    for kind in KINDS.values()
}
_DEFAULTS = {
    kind: {each.name: each.default for each in fields(kind) if each.name not in _COMMON}
    for kind in KINDS.values()
}


class BadLine(ValueError):
    """A line of a history file makes no sense; the message says which, and why."""


def begin_line(operation: Operation) -> bytes:
    """That an operation begins."""
    return _line(
        {
            "at": operation.began,
            "client": operation.client,
            "op": operation.number,
            "do": operation.NAME,
            **_own(operation),
        }
    )


def end_line(operation: Operation, at: int, result: dict[str, Any]) -> bytes:
    """How it ended, and what came of it."""
    line = {
        "at": at,
        "client": operation.client,
        "op": operation.number,
        "is": operation.outcome,
        **result,
    }
    if operation.error:
        line["error"] = operation.error
    return _line(line)


def whole_line(operation: Operation) -> bytes:
    """An operation that has ended, in one line."""
    line = {
        "began": operation.began,
        "at": operation.ended,
        "client": operation.client,
        "op": operation.number,
        "do": operation.NAME,
        "is": operation.outcome,
        **_own(operation),
    }
    if operation.error:
        line["error"] = operation.error
    return _line(line)


def read_file(path: Path) -> list[Operation]:
    """The operations of one file, in the order in which they began."""
    with open(path, "rb") as file:
        return list(_operations(file, str(path)))


def _operations(lines: Iterable[bytes], name: str) -> Iterator[Operation]:
    found: list[Operation] = []
    pending: dict[tuple[str, int], Operation] = {}
    torn = ""
    for number, data in enumerate(lines, 1):
        if torn:
            raise BadLine(torn)
        try:
            line = json.loads(data)
            _take(line, found, pending)
        except (ValueError, TypeError, KeyError) as problem:
            # Kept until the next line: the last one may well be torn, its writer was killed.
            torn = f"{name}:{number}: {problem!r} in {data[:120]!r}"
    yield from found


def _take(
    line: dict[str, Any], found: list[Operation], pending: dict[tuple[str, int], Operation]
) -> None:
    key = line.pop("client"), line.pop("op")
    at = line.pop("at")
    if "do" not in line:
        _finish(pending.pop(key), at, line)
        return
    kind = KINDS[line.pop("do")]
    ends: dict[str, Any] = {name: line.pop(name) for name in ("is", "error") if name in line}
    operation = kind(client=key[0], number=key[1], began=line.pop("began", at), **line)
    if isinstance(operation, Poll):
        operation.records = [(offset, value) for offset, value in operation.records]
    found.append(operation)
    if ends:
        _finish(operation, at, ends)
    else:
        # A restarted client may count from the beginning: what it had begun stays unknown.
        pending[key] = operation


def _finish(operation: Operation, at: int, line: dict[str, Any]) -> None:
    operation.outcome = Outcome(line.pop("is"))
    operation.error = line.pop("error", "")
    if operation.outcome is not Outcome.UNKNOWN:
        operation.ended = at
    for name, value in line.items():
        if name not in _OWN[type(operation)]:
            raise KeyError(name)
        setattr(operation, name, value)


def _own(operation: Operation) -> dict[str, Any]:
    defaults = _DEFAULTS[type(operation)]
    return {
        name: value
        for name in _OWN[type(operation)]
        if (value := getattr(operation, name)) != defaults[name]
    }


def _line(line: dict[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
