"""Groups: who may commit, and what a commit leaves behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from penstock.testing.history.history import History
from penstock.testing.history.operations import (
    NEVER,
    UNSET,
    Commit,
    Committed,
    Generation,
    Operation,
    Place,
)
from penstock.testing.history.transactions import Fate
from penstock.testing.history.verdict import Verdict

FENCED = "fenced members' commits fail"
POSITION = "positions are as committed"


def fenced_commits_fail(history: History) -> Iterator[Verdict]:
    """Once a later generation is known, a commit that begins in an older one is refused."""
    later: dict[str, list[Generation]] = defaultdict(list)
    for generation in history.generations:
        if generation.is_ok:
            later[generation.group].append(generation)
    for commit in history.commits:
        if not commit.is_ok or commit.generation == UNSET:
            continue
        for generation in later[commit.group]:
            if _fences(generation, commit):
                says = (
                    f"{commit.client} committed offset {commit.offset} of {commit.place} for "
                    f"{commit.group} in generation {commit.generation}, when {generation.client} "
                    f"was in {generation.generation} already"
                )
                yield Verdict(FENCED, says, (generation, commit), commit.place)
                break


def _fences(generation: Generation, commit: Commit) -> bool:
    if generation.per_member and generation.member != commit.member:
        return False
    return generation.generation > commit.generation and generation.ended < commit.began


class _Write(NamedTuple):
    """A commit, and when it took effect: between these moments, if at all."""

    began: int
    ended: int
    commit: Commit


def positions_are_as_committed(history: History) -> Iterator[Verdict]:
    """A group's position is what was committed last, and nothing that failed or was fenced."""
    writes: dict[tuple[str, Place], list[_Write]] = defaultdict(list)
    for commit in history.commits:
        write = _write(history, commit)
        if write is not None:
            writes[commit.group, commit.place].append(write)
    for read in history.committed:
        yield from _judge(read, writes[read.group, read.place])


def _write(history: History, commit: Commit) -> _Write | None:
    """None if the commit cannot have had an effect."""
    if not commit.may_have_happened:
        return None
    if not commit.transaction:
        return _Write(commit.began, commit.ended, commit)
    transaction = history.transactions[commit.transaction]
    began = transaction.commit_began
    if began is None or transaction.fate is Fate.ABORTED:
        return None
    ended = transaction.commit_ended
    return _Write(began, NEVER if ended is None else ended, commit)


def _judge(read: Committed, writes: list[_Write]) -> Iterator[Verdict]:
    # What was certainly there when the position was asked for. A transaction's end reaches the
    # group a moment after its producer is told, so it counts only for those who asked to wait.
    settled = [
        each for each in writes if each.ended < read.began and (read.stable or not _lags(each))
    ]
    possible = [
        each for each in writes if each.commit.offset == read.offset and each.began < read.ended
    ]
    for each in possible:
        late = _lags(each) and not read.stable
        if late or not any(other.began > each.ended for other in settled):
            return
    if read.offset == UNSET and not settled:
        return
    last = max(settled, key=lambda each: each.ended, default=None)
    expected = "nothing was committed" if last is None else f"{last.commit.offset} was committed"
    says = (
        f"{read.group} had offset {read.offset} in {read.place}, when {expected} before and "
        "nothing else can have changed it"
    )
    witnesses: tuple[Operation, ...] = (read,) if last is None else (last.commit, read)
    yield Verdict(POSITION, says, witnesses, read.place)


def _lags(write: _Write) -> bool:
    return bool(write.commit.transaction)
