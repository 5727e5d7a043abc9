"""Who leads the metadata log, and up to where it is committed.

Pure: time and what happened come in, effects come out, to be carried out in their order. One
voter elects itself; the rows of `NEXT` that need a second voter are not in the table yet.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.ids import NO_NODE
from penstock.model.invariants import invariant
from penstock.raft.election_state import ElectionState

if TYPE_CHECKING:
    from penstock.raft.voters import Voters


class Role(Enum):
    """What a voter is doing in its epoch."""

    UNATTACHED = "knows no leader"
    RESIGNED = "led this epoch before it stopped, and must not write in it again"
    CANDIDATE = "asks for votes"
    LEADER = "appends, and decides what is committed"


class Event(Enum):
    """What moves a voter from one role to another."""

    CAMPAIGN = "it is time to stand for election"
    MAJORITY = "more than half of the voters granted their vote"
    STOP = "the process is ending"


NEXT: dict[tuple[Role, Event], Role] = {
    (Role.UNATTACHED, Event.CAMPAIGN): Role.CANDIDATE,
    (Role.RESIGNED, Event.CAMPAIGN): Role.CANDIDATE,
    (Role.CANDIDATE, Event.MAJORITY): Role.LEADER,
    (Role.LEADER, Event.STOP): Role.RESIGNED,
}


class SaveElection(NamedTuple):
    """Make this durable before any later effect."""

    state: ElectionState


class AppendLeaderChange(NamedTuple):
    """Begin the epoch in the log: what lies before is committed once this is."""

    epoch: int
    granted: tuple[int, ...]


class Commit(NamedTuple):
    """Everything below is committed: it will never change."""

    high_watermark: int


Effect = SaveElection | AppendLeaderChange | Commit


class Raft:
    """One voter's part in the quorum."""

    __slots__ = (
        "_granted",
        "_synced",
        "epoch",
        "epoch_start",
        "high_watermark",
        "leader",
        "node",
        "role",
        "voters",
    )

    def __init__(self, node: int, voters: Voters, stored: ElectionState, log_epoch: int) -> None:
        self.node = node
        self.voters = voters
        self.epoch = max(stored.epoch, log_epoch, 0)
        self.leader: int = NO_NODE
        led = stored.leader == node and stored.epoch == self.epoch
        self.role = Role.RESIGNED if led else Role.UNATTACHED
        self.high_watermark = -1
        """The end of what is committed; -1 until a leader of this epoch knows."""
        self.epoch_start = -1
        self._granted: set[int] = set()
        self._synced: dict[int, int] = {}

    def start(self) -> list[Effect]:
        """The log is open. A sole voter need not wait for anybody's heartbeat."""
        return self._campaign() if list(self.voters.by_id) == [self.node] else []

    def stop(self) -> None:
        """No more leading: another voter, or the next incarnation, opens a new epoch."""
        if self.role is Role.LEADER:
            self._become(Event.STOP)

    def _campaign(self) -> list[Effect]:
        self._become(Event.CAMPAIGN)
        self.epoch += 1
        self.leader = NO_NODE
        self._granted = {self.node}
        # A vote for oneself that nobody else hears need not be durable: until a leader is, the
        # epoch has left no trace, and the next start may use it again.
        effects: list[Effect] = []
        if len(self.voters.by_id) > 1:
            directory = self.voters.by_id[self.node].directory
            effects.append(SaveElection(ElectionState(self.epoch, NO_NODE, self.node, directory)))
        return effects + self._count_votes()

    def _count_votes(self) -> list[Effect]:
        if len(self._granted) < self.voters.majority:
            return []
        self._become(Event.MAJORITY)
        self.leader = self.node
        self._synced = dict.fromkeys(self.voters.by_id, 0)
        return [
            SaveElection(ElectionState(self.epoch, self.node)),
            AppendLeaderChange(self.epoch, tuple(sorted(self._granted))),
        ]

    def epoch_began(self, offset: int) -> None:
        """The leader change record stands at `offset`."""
        invariant(self.role is Role.LEADER, "only a leader begins an epoch in the log")
        self.epoch_start = offset

    def synced(self, voter: int, end: int) -> list[Effect]:
        """A voter's log is durable up to `end`."""
        if self.role is not Role.LEADER or end <= self._synced.get(voter, end):
            return []
        self._synced[voter] = end
        ends = sorted(self._synced.values(), reverse=True)
        agreed = ends[self.voters.majority - 1]
        # Counting replicas of an older epoch's records proves nothing: a voter without them
        # could still win. Once one record of this epoch is safe, all before it are.
        if agreed <= self.epoch_start or agreed <= self.high_watermark:
            return []
        self.high_watermark = agreed
        return [Commit(agreed)]

    def _become(self, event: Event) -> None:
        following = NEXT.get((self.role, event))
        invariant(following is not None, f"{event.name} while {self.role.name}")
        assert following is not None
        self.role = following
