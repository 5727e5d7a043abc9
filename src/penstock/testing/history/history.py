"""All that was recorded, from however many clients, arranged for looking things up."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from penstock.testing.history.lines import read_file
from penstock.testing.history.operations import (
    UNSET,
    Commit,
    Committed,
    Deliver,
    End,
    Generation,
    Init,
    Marks,
    OnPlace,
    Operation,
    Place,
    Poll,
    Seek,
    Send,
    Settle,
)
from penstock.testing.history.ranges import Ranges
from penstock.testing.history.recorder import Recorder
from penstock.testing.history.transactions import Transaction

_Kind = TypeVar("_Kind", bound=Operation)


class Sighting(NamedTuple):
    """A record, and the first poll that found it."""

    value: str
    poll: Poll


class View:
    """What readers of one isolation saw of one partition."""

    def __init__(self, polls: list[Poll]) -> None:
        self.polls = polls
        self.covered = Ranges((poll.start, poll.end) for poll in polls)
        """Offsets that a reader has gone over, whether or not there was a record for it."""
        self.records: dict[int, Sighting] = {}
        for poll in polls:
            for offset, value in poll.records:
                self.records.setdefault(offset, Sighting(value, poll))

    @cached_property
    def offsets(self) -> dict[str, tuple[int, ...]]:
        """Where each value was found: nearly always in one place."""
        found: dict[str, tuple[int, ...]] = {}
        for poll in self.polls:
            for offset, value in poll.records:
                known = found.get(value, ())
                if offset not in known:
                    found[value] = (*known, offset)
        return found


_NOBODY = View([])


class History:
    """Operations of all clients.

    `History.read("producer.jsonl", "consumer.jsonl")` merges files, `History.of(*recorders)` what
    is in memory. `penstock.testing.history.check` says whether it is sound.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = sorted(operations, key=lambda each: each.began)
        self.sends = self._all(Send)
        self.polls = self._all(Poll)
        self.seeks = self._all(Seek)
        self.marks = self._all(Marks)
        self.inits = self._all(Init)
        self.ends = self._all(End)
        self.generations = self._all(Generation)
        self.commits = self._all(Commit)
        self.committed = self._all(Committed)
        self.deliveries = self._all(Deliver)
        self.settlements = self._all(Settle)

    @classmethod
    def read(cls, *paths: str | os.PathLike[str]) -> History:
        """Merge files, as recorders of any number of processes left them."""
        return cls(operation for path in paths for operation in read_file(Path(path)))

    @classmethod
    def of(cls, *recorders: Recorder) -> History:
        """Merge what recorders of this process have in memory."""
        return cls(operation for recorder in recorders for operation in recorder.operations)

    def __add__(self, other: History) -> History:
        return History([*self.operations, *other.operations])

    def __len__(self) -> int:
        return len(self.operations)

    def _all(self, kind: type[_Kind]) -> list[_Kind]:
        return [each for each in self.operations if type(each) is kind]

    @cached_property
    def places(self) -> list[Place]:
        """Every partition that somebody touched."""
        return sorted({each.place for each in self.operations if isinstance(each, OnPlace)})

    @cached_property
    def transactions(self) -> dict[str, Transaction]:
        """By label."""
        found: dict[str, Transaction] = {}
        for send in self.sends:
            if send.transaction:
                found.setdefault(send.transaction, Transaction(send.transaction)).sends.append(send)
        for commit in self.commits:
            if commit.transaction:
                label = commit.transaction
                found.setdefault(label, Transaction(label)).commits.append(commit)
        for end in self.ends:
            found.setdefault(end.transaction, Transaction(end.transaction)).ends.append(end)
        return found

    def view(self, place: Place, *, committed: bool) -> View:
        """What readers of committed transactions only, or readers of everything, saw."""
        return self._views.get((place, committed), _NOBODY)

    @cached_property
    def _views(self) -> dict[tuple[Place, bool], View]:
        polls: dict[tuple[Place, bool], list[Poll]] = defaultdict(list)
        for poll in self.polls:
            polls[poll.place, poll.committed].append(poll)
        return {key: View(each) for key, each in polls.items()}

    @cached_property
    def sends_of(self) -> dict[tuple[Place, str], list[Send]]:
        """The sends of each value to each partition."""
        found: dict[tuple[Place, str], list[Send]] = defaultdict(list)
        for send in self.sends:
            found[send.place, send.value].append(send)
        return found

    def offsets_of(self, place: Place, value: str) -> set[int]:
        """Everywhere that anybody, producer or reader, says that a value stands."""
        found = {
            send.offset
            for send in self.sends_of.get((place, value), ())
            if send.is_ok and send.offset != UNSET
        }
        for committed in (False, True):
            found.update(self.view(place, committed=committed).offsets.get(value, ()))
        return found

    def offset_of(self, send: Send) -> int | None:
        """Where a send's record stands, if that is known beyond doubt."""
        if send.is_ok and send.offset != UNSET:
            return send.offset
        if not send.may_have_happened or len(self.sends_of[send.place, send.value]) > 1:
            return None
        offsets = self.offsets_of(send.place, send.value)
        return next(iter(offsets)) if len(offsets) == 1 else None

    def was_seen(self, send: Send, *, committed: bool) -> bool | None:
        """Whether such readers found a send's record; None if they did not look there."""
        view = self.view(send.place, committed=committed)
        offset = self.offset_of(send)
        if offset is None:
            return None
        found = view.records.get(offset)
        if found is not None:
            return found.value == send.value
        return False if offset in view.covered else None
