"""A log as a list: what a node has, and what of it a power cut would leave."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from penstock.raft.messages import Position
from penstock.raft.snapshots import SnapshotId
from penstock.raft.voters import Voters

Entry = tuple[int, str | Voters]
"""(epoch, what was proposed, or who votes from here on)"""

NOTHING = SnapshotId(0, 0)


@dataclass
class SimLog:
    """The log that a machine reads, and its driver writes."""

    configured: Voters
    entries: list[Entry] = field(default_factory=list)
    durable: int = 0
    snapshot: SnapshotId = NOTHING
    named: list[tuple[int, Voters]] = field(default_factory=list)
    """Where the log names voters, and whom."""

    @property
    def voters(self) -> tuple[int, Voters]:
        """Who votes by the end of the log, and where it says so."""
        return self.named[-1] if self.named else (-1, self.configured)

    @property
    def voters_before(self) -> Voters | None:
        """Who voted before that."""
        if not self.named:
            return None
        return self.named[-2][1] if len(self.named) > 1 else self.configured

    @property
    def start(self) -> Position:
        return Position(self.snapshot.epoch, self.snapshot.end)

    @property
    def first(self) -> int:
        return self.snapshot.end

    @property
    def end(self) -> int:
        return self.first + len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1][0] if self.entries else self.snapshot.epoch

    def end_of(self, epoch: int) -> Position:
        count = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        if not count:
            return self.start
        return Position(self.entries[count - 1][0], self.first + count)

    def at(self, offset: int) -> Entry:
        return self.entries[offset - self.first]

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            if isinstance(entry[1], Voters):
                self.named.append((self.end, entry[1]))
            self.entries.append(entry)

    def truncate(self, end: int) -> None:
        while self.named and self.named[-1][0] >= end:
            self.named.pop()
        del self.entries[max(end - self.first, 0) :]
        self.durable = min(self.durable, end)

    def begin_behind(self, snapshot: SnapshotId, voters: Voters | None) -> None:
        """Take a leader's snapshot in the place of everything; it may name the voters."""
        self.entries.clear()
        self.named = [] if voters is None else [(snapshot.end - 1, voters)]
        self.durable = snapshot.end
        self.snapshot = snapshot

    def cut(self, end: int) -> None:
        """Let a snapshot of one's own stand for everything below `end`."""
        if end > self.first:
            gone = end - self.first
            self.snapshot = SnapshotId(end, self.at(end - 1)[0])
            del self.entries[:gone]
