"""What a share group has read of a partition and is not done with, as runs of equal offsets.

The window covers every offset from `start` up to `end` (exclusive) with exactly one run: what the
group has not heard of yet begins at `end`, and everything below `start` is done with. Thousands of
records in one state are one run; an acknowledgement that says something else about a part of
them splits it, and equal neighbours become one again when many have gathered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from penstock.coordination.delivery.effects import Reason
from penstock.coordination.delivery.states import DONE, State
from penstock.model.ids import Millis
from penstock.model.invariants import invariant

_RUNS_MANY = 64
"""Below this number of runs nobody looks for equal neighbours."""


class Run:
    """Neighbouring offsets with one fate."""

    __slots__ = (
        "count",
        "due",
        "first",
        "is_kept",
        "last",
        "member",
        "not_before",
        "reason",
        "state",
        "ticket",
    )

    def __init__(
        self, first: int, last: int, state: State, count: int, member: str = "", due: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.member = member
        """Who holds the lock. While a write about the run is on its way it still says who did:
        that member has the run again if the write fails."""
        self.due = due
        """The monotonic time at which the lock or the wait ends; 0 for none."""
        self.not_before = Millis(0)
        """The wall time at which a record that waits becomes available: outlives this process."""
        self.ticket = 0
        """Of the write that is on its way, or 0. Until it ends, nothing else happens to the run."""
        self.reason: Reason | None = None
        """Why it was given up; for records on their way to the dead-letter topic."""
        self.is_kept = False
        """Whether the share coordinator knows that it is on that way."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        """Whether somebody may acquire it now."""
        return not (self.state or self.ticket or self.due)

    def split(self, at: int) -> Run:
        """Keep what lies below `at`; what comes back has the rest."""
        rest = Run(at, self.last, self.state, self.count, self.member, self.due)
        if self.state is not State.ACQUIRED:
            rest.not_before = self.not_before
            rest.reason = self.reason
            rest.is_kept = self.is_kept
        self.last = at - 1
        return rest

    def is_like(self, other: Run) -> bool:
        """Whether the two, as neighbours, can be one."""
        if self.ticket or other.ticket:
            return False
        # Nobody asks any more what became of a record that is done with, and after how many tries.
        if self.state in DONE:
            return other.state in DONE
        return (
            self.state is other.state
            and self.count == other.count
            and self.member == other.member
            and self.due == other.due
            and self.not_before == other.not_before
            and self.reason is other.reason
            and self.is_kept == other.is_kept
        )


class Window:
    """The runs of one share group on one partition, in order and without holes."""

    __slots__ = ("_changes", "_firsts", "_free", "closed", "closing", "end", "runs", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.runs: list[Run] = []
        self._firsts: list[int] = []
        self.closed = 0
        """Offsets in the window that are done with, and known to be."""
        self.closing = 0
        """Offsets that will be, if the writes that are on their way succeed."""
        self._free = start
        """No offset below is free to be acquired."""
        self._changes = 0
        """Runs that may have become like their neighbours since somebody looked."""

    @property
    def open(self) -> int:
        """How many offsets were read and are not done with."""
        return self.end - self.start - self.closed

    def find(self, offset: int) -> int:
        """The index of the run that has the offset, which lies in the window."""
        return bisect_right(self._firsts, offset) - 1

    def append(self, run: Run) -> None:
        """Take up what was just read, which begins where the window ends."""
        invariant(run.first == self.end, "a run that does not begin where the window ends")
        end = run.last + 1
        if self._free == self.end and not run.is_free:
            self._free = end
        self.runs.append(run)
        self._firsts.append(run.first)
        self.end = end
        if run.state in DONE:
            self.closed += run.size

    def cut(self, offsets: Sequence[int]) -> None:
        """Have runs begin at all of these offsets, which ascend."""
        at = 0
        while at < len(offsets) and offsets[at] <= self.start:
            at += 1
        while at < len(offsets) and offsets[at] < self.end:
            index = self.find(offsets[at])
            run = self.runs[index]
            last = run.last
            parts = [run]
            while at < len(offsets) and offsets[at] <= last:
                if offsets[at] > run.first:
                    run = run.split(offsets[at])
                    parts.append(run)
                at += 1
            if len(parts) > 1:
                self.runs[index : index + 1] = parts
                self._firsts[index : index + 1] = [part.first for part in parts]

    def over(self, first: int, last: int) -> list[Run]:
        """The runs that have any of the offsets first to last."""
        if first >= self.end or last < self.start:
            return []
        return self.runs[self.find(max(first, self.start)) : self.find(last) + 1]

    # -- what is free ------------------------------------------------------------------------------

    def freed(self, run: Run) -> None:
        """A run may be acquired from now on."""
        self._changes += 1
        if run.first < self._free:
            self._free = run.first

    def next_free(self) -> int:
        """The first offset that may be acquired: of what was read before, or else the end."""
        free = max(self._free, self.start)
        if free < self.end:
            runs = self.runs
            for index in range(self.find(free), len(runs)):
                if runs[index].is_free:
                    self._free = max(free, runs[index].first)
                    return self._free
            self._free = self.end
        return self.end

    # -- what is done with -------------------------------------------------------------------------

    def close(self, run: Run) -> None:
        """A run is done with, and nothing can change that."""
        run.member = ""
        run.due = 0
        run.not_before = Millis(0)
        self.closed += run.size
        self._changes += 1

    def advance(self) -> None:
        """Move the start over what is done with."""
        runs = self.runs
        passed = 0
        for run in runs:
            if run.state not in DONE or run.ticket:
                break
            self.closed -= run.size
            passed += 1
        if passed:
            self.start = runs[passed].first if passed < len(runs) else self.end
            del runs[:passed]
            del self._firsts[:passed]
        # What a look costs is shared by what has changed since the last one.
        if len(runs) > _RUNS_MANY and 4 * self._changes > len(runs):
            self.tidy()

    def begin_at(self, start: int) -> None:
        """Have done with all that lies below `start`, whoever holds it."""
        if start <= self.start:
            return
        while self.runs and self.runs[0].first < start:
            run = self.runs[0]
            below = min(run.last + 1, start) - run.first
            if run.state in DONE:
                if run.ticket:
                    self.closing -= below
                else:
                    self.closed -= below
            if run.last < start:
                del self.runs[0], self._firsts[0]
                run.ticket = 0
                run.state = State.ARCHIVED
            else:
                run.first = self._firsts[0] = start
        self.start = start
        self.end = max(self.end, start)
        self._free = max(self._free, start)

    def tidy(self) -> None:
        """Make one run of equal neighbours."""
        kept: list[Run] = []
        for run in self.runs:
            if kept and kept[-1].is_like(run):
                kept[-1].last = run.last
            else:
                kept.append(run)
        self.runs = kept
        self._firsts = [run.first for run in kept]
        self._changes = 0
