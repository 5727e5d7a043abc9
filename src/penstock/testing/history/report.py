"""Verdicts as text: what is wrong, who did what, and what else is known about that place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from penstock.testing.history.history import History
from penstock.testing.history.operations import NEVER, Operation, Place, Poll
from penstock.testing.history.verdict import Verdict

SHOWN_MAX = 5
"""Verdicts of one kind that are shown in full: the first are usually the ones to look at."""
AROUND = 3
RECORDS_SHOWN_MAX = 6

_COMMON = frozenset(("client", "number", "began", "ended", "outcome", "error", "place"))


def report(history: History, verdicts: Sequence[Verdict]) -> str:
    """A page to read when a test fails."""
    clients = len({each.client for each in history.operations})
    head = f"{_count(len(history), 'operation')} of {_count(clients, 'client')}"
    if not verdicts:
        return f"{head}: nothing wrong\n"
    by_name: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_name.setdefault(verdict.name, []).append(verdict)
    lines = [f"{head}: {_count(len(by_name), 'broken promise')}"]
    start = history.operations[0].began if history.operations else 0
    for name, found in by_name.items():
        lines += ["", f"BROKEN: {name} ({len(found)})"]
        for verdict in found[:SHOWN_MAX]:
            lines += _verdict(history, verdict, start)
        if len(found) > SHOWN_MAX:
            lines.append(f"  ... and {len(found) - SHOWN_MAX} more")
    return "\n".join(lines) + "\n"


def _verdict(history: History, verdict: Verdict, start: int) -> Iterator[str]:
    yield f"  {verdict.says}"
    for operation in verdict.operations:
        yield f"    {describe(operation, start)}"
    if verdict.place is not None and verdict.offset is not None:
        yield from _neighbourhood(history, verdict.place, verdict.offset)


def describe(operation: Operation, start: int = 0) -> str:
    """One operation in one line, with its times in milliseconds since `start`."""
    began = (operation.began - start) / 1e6
    ended = "?" if operation.ended == NEVER else f"{(operation.ended - start) / 1e6:.3f}"
    words = [f"[{began:.3f} .. {ended}]", operation.client, f"#{operation.number}", operation.NAME]
    for each in fields(operation):
        value = getattr(operation, each.name)
        if each.name in _COMMON or value == each.default:
            continue
        if isinstance(operation, Poll) and each.name == "records":
            value = _few(operation.records)
        words.append(f"{each.name}={value!r}")
    words.append(str(operation.outcome))
    if operation.error:
        words.append(f"({operation.error})")
    return " ".join(words)


def _few(records: list[tuple[int, str]]) -> object:
    if len(records) <= RECORDS_SHOWN_MAX:
        return records
    return [*records[:2], f"... {len(records) - 4} more ...", *records[-2:]]


def _neighbourhood(history: History, place: Place, offset: int) -> Iterator[str]:
    """What producers and readers said about the offsets around one."""
    said: dict[int, list[str]] = {
        each: [] for each in range(max(offset - AROUND, 0), offset + AROUND + 1)
    }
    for send in history.sends:
        if send.place == place and send.offset in said:
            transaction = f" in {send.transaction}" if send.transaction else ""
            said[send.offset].append(f"{send.value!r} sent by {send.client}{transaction}")
    for committed in (False, True):
        view = history.view(place, committed=committed)
        who = "readers of committed" if committed else "readers"
        for each, words in said.items():
            if each in view.records:
                words.append(f"{who} found {view.records[each].value!r}")
            elif each in view.covered:
                words.append(f"{who} found nothing")
    if not any(said.values()):
        return
    yield f"    around offset {offset} of {place}:"
    for each, words in said.items():
        if words:
            mark = ">" if each == offset else " "
            yield f"    {mark} {each:>8}  {'; '.join(words)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
