"""What a step of the quorum's machine asks its driver to do, in this order."""

from __future__ import annotations

from typing import NamedTuple

from penstock.raft.election_state import ElectionState
from penstock.raft.messages import Ask, ChangeReply
from penstock.raft.snapshots import SnapshotId
from penstock.raft.voters import Voters


class SaveElection(NamedTuple):
    """Make this durable before any later effect, and before the reply of this step leaves."""

    state: ElectionState


class AppendLeaderChange(NamedTuple):
    """Begin the epoch in the log: what lies before is committed once this is."""

    epoch: int
    granted: tuple[int, ...]


class AppendFetched(NamedTuple):
    """Append a leader's batches as they are, and say when they are durable."""

    records: bytes


class Truncate(NamedTuple):
    """Drop everything from `end` on: the leader never had it."""

    end: int


class TakeSnapshot(NamedTuple):
    """Fetch this snapshot from the leader, and begin the log anew behind it.

    Unless the epoch or the log has changed by then: it may go back behind what came meanwhile.
    """

    leader: int
    snapshot: SnapshotId


class Send(NamedTuple):
    """Ask a node something; its answer, or that there is none, comes back to the machine."""

    to: int
    """NO_NODE where any node will do that may know who leads."""
    ask: Ask


class Commit(NamedTuple):
    """Everything below is committed: it will never change."""

    high_watermark: int


class AppendVoters(NamedTuple):
    """Write down who votes from now on, and tell the machine where it stands (`set_voters`)."""

    voters: Voters


class Conclude(NamedTuple):
    """Answer whoever asked for a change of the voters."""

    ticket: int
    reply: ChangeReply


Effect = (
    SaveElection
    | AppendLeaderChange
    | AppendFetched
    | AppendVoters
    | Truncate
    | TakeSnapshot
    | Send
    | Commit
    | Conclude
)
