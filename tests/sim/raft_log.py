"""A log as a list: what a node has, and what of it a power cut would leave."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from penstock.raft.messages import Position
from penstock.raft.snapshots import SnapshotId

Entry = tuple[int, str]
"""(epoch, what was proposed)"""

NOTHING = SnapshotId(0, 0)


@dataclass
class SimLog:
    """The log that a machine reads, and its driver writes."""

    entries: list[Entry] = field(default_factory=list)
    durable: int = 0
    snapshot: SnapshotId = NOTHING

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

    def truncate(self, end: int) -> None:
        del self.entries[max(end - self.first, 0) :]
        self.durable = min(self.durable, end)

    def begin_behind(self, snapshot: SnapshotId) -> None:
        """Take a leader's snapshot in the place of everything."""
        self.entries.clear()
        self.durable = snapshot.end
        self.snapshot = snapshot

    def cut(self, end: int) -> None:
        """Let a snapshot of one's own stand for everything below `end`."""
        if end > self.first:
            gone = end - self.first
            self.snapshot = SnapshotId(end, self.at(end - 1)[0])
            del self.entries[:gone]
