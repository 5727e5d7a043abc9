"""What members of the quorum say to each other: Kafka's requests, without what never varies.

`wire` turns these into Kafka's messages and back. Every one names the epoch that its sender is in.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, ZERO_UUID
from penstock.raft.snapshots import SnapshotId


class Replica(NamedTuple):
    """A node and the disk it has: the same node with a new disk has promised nothing."""

    id: int
    directory: bytes = ZERO_UUID

    def matches(self, other: Replica) -> bool:
        """Whether both may be the same; an unknown directory is anybody's."""
        if self.id != other.id:
            return False
        return ZERO_UUID in (self.directory, other.directory) or self.directory == other.directory


class Position(NamedTuple):
    """The end of a log and the epoch of the record before it: later ones sort higher."""

    epoch: int
    end: int


class Vote(NamedTuple):
    """May I lead `epoch`? With `pre`: would you say yes if I asked?"""

    epoch: int
    candidate: Replica
    log: Position
    pre: bool


class VoteReply(NamedTuple):
    epoch: int
    leader: int = NO_NODE
    granted: bool = False
    error: ErrorCode = ErrorCode.NONE


class BeginEpoch(NamedTuple):
    """I lead: fetch from me."""

    epoch: int
    leader: int


class EndEpoch(NamedTuple):
    """I lead no longer: stand, the first of you at once."""

    epoch: int
    leader: int
    successors: tuple[Replica, ...]


class EpochReply(NamedTuple):
    """To both."""

    epoch: int
    leader: int = NO_NODE
    error: ErrorCode = ErrorCode.NONE


class Fetch(NamedTuple):
    """Everything that I have ends at `log`: give me what follows, or tell where we differ."""

    epoch: int
    replica: Replica
    log: Position
    high_watermark: int


class FetchReply(NamedTuple):
    """Records from where the fetch asked, or where to go back to, or a snapshot to take first."""

    epoch: int
    leader: int = NO_NODE
    high_watermark: int = -1
    records: bytes = b""
    diverging: Position | None = None
    snapshot: SnapshotId | None = None
    error: ErrorCode = ErrorCode.NONE


class FetchSnapshot(NamedTuple):
    """Give me a piece of this snapshot, from `position` on."""

    epoch: int
    replica: Replica
    snapshot: SnapshotId
    position: int


class SnapshotReply(NamedTuple):
    """A piece, and how large the whole is."""

    epoch: int
    leader: int = NO_NODE
    size: int = 0
    data: bytes = b""
    error: ErrorCode = ErrorCode.NONE


Ask = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot
Reply = VoteReply | EpochReply | FetchReply | SnapshotReply
