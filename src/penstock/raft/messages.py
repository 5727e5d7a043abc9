"""What members of the quorum say to each other: Kafka's requests, without what never varies.

`wire` turns these into Kafka's messages and back. Every one names the epoch that its sender is in.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.metadata.levels import LevelRange
from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, ZERO_UUID
from penstock.raft.snapshots import SnapshotId
from penstock.raft.voters import Voter


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


class Probe(NamedTuple):
    """You shall vote: can you be reached, and which versions of this protocol do you know?"""

    voter: Voter


class ProbeReply(NamedTuple):
    kraft_versions: LevelRange | None
    """None from a node that knows nothing of them."""
    error: ErrorCode = ErrorCode.NONE


class AddVoter(NamedTuple):
    """Let this one vote."""

    voter: Voter
    when_committed: bool = True
    """Whether the answer waits until the change is committed: who asks for itself must not, as its
    own vote may be needed for that."""


class RemoveVoter(NamedTuple):
    """Let this one vote no longer."""

    replica: Replica


class UpdateVoter(NamedTuple):
    """I vote, and here is where I listen and what I support now."""

    epoch: int
    voter: Voter


class ChangeReply(NamedTuple):
    """To all three."""

    epoch: int = -1
    leader: int = NO_NODE
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


MemberAsk = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot
"""What members ask each other all the time."""

MemberReply = VoteReply | EpochReply | FetchReply | SnapshotReply

Change = AddVoter | RemoveVoter | UpdateVoter
Ask = MemberAsk | Probe | Change
Reply = MemberReply | ProbeReply | ChangeReply
