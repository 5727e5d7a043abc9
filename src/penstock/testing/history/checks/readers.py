"""Readers of assigned partitions: in order, and nothing left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.operations import Place, Poll, Seek
from penstock.testing.history.verdict import Verdict

ORDER = "readers go in order"
SKIPPED = "readers skip nothing"


def readers_go_in_order(history: History) -> Iterator[Verdict]:
    """A reader goes on where it stopped, unless it was told to go elsewhere."""
    for steps in _steps(history).values():
        before: Poll | None = None
        for step in steps:
            if isinstance(step, Seek):
                before = None
                continue
            yield from _ascending(step)
            if before is not None and step.start != before.end:
                says = (
                    f"{step.client} had read {step.place} up to {before.end} and went on at "
                    f"{step.start}"
                )
                yield Verdict(ORDER, says, (before, step), step.place, step.start)
            before = step


def _ascending(poll: Poll) -> Iterator[Verdict]:
    position = poll.start
    for offset, value in poll.records:
        if not position <= offset < poll.end:
            says = (
                f"{poll.client} found {value!r} at offset {offset} of {poll.place} when it "
                f"expected one from {position} to {poll.end}"
            )
            yield Verdict(ORDER, says, (poll,), poll.place, offset)
        position = offset + 1


def readers_skip_nothing(history: History) -> Iterator[Verdict]:
    """Where one reader found a record, every reader that passes finds it.

    Gaps are markers, and for readers of committed transactions aborted records: nobody who may
    see no more than they do has found anything there.
    """
    for poll in history.polls:
        found = {offset for offset, _ in poll.records}
        if len(found) == poll.end - poll.start:
            continue
        others = [history.view(poll.place, committed=True)]
        if not poll.committed:
            others.append(history.view(poll.place, committed=False))
        for offset in range(poll.start, poll.end):
            if offset in found:
                continue
            sighting = next(
                (view.records[offset] for view in others if offset in view.records), None
            )
            if sighting is not None:
                says = (
                    f"{poll.client} went over offset {offset} of {poll.place} without finding "
                    f"{sighting.value!r}, which {sighting.poll.client} found there"
                )
                yield Verdict(SKIPPED, says, (sighting.poll, poll), poll.place, offset)


def _steps(history: History) -> dict[tuple[str, Place], list[Poll | Seek]]:
    steps: dict[tuple[str, Place], list[Poll | Seek]] = defaultdict(list)
    both: tuple[Poll | Seek, ...] = (*history.polls, *history.seeks)
    for step in both:
        steps[step.client, step.place].append(step)
    for each in steps.values():
        each.sort(key=lambda step: step.number)
    return steps
