"""What every member of the quorum has, whatever its role: an epoch, a vote, a leader. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis
from penstock.model.invariants import invariant
from penstock.raft.ballot import Ballot
from penstock.raft.effects import Conclude, Effect, SaveElection
from penstock.raft.election_state import ElectionState
from penstock.raft.messages import AddVoter, ChangeReply, Fetch, Position, Replica
from penstock.raft.progress import Progress
from penstock.raft.roles import NEXT, Event, Role
from penstock.raft.timeouts import DEFAULT_TIMEOUTS, Timeouts
from penstock.raft.voters import Voter

if TYPE_CHECKING:
    from penstock.metadata.cluster import Endpoint
    from penstock.platform.chance import Chance
    from penstock.raft.snapshots import SnapshotId
    from penstock.raft.voters import Voters

NEVER = Millis(1 << 62)

EPOCH_MAX = (1 << 31) - 2
"""Of any epoch that is believed: the next one must still fit into its 32 bits."""

EPOCH_LEAP_MAX = 1 << 20
"""How far ahead of this node a request may claim to be. Elections take longer than a second, so no
cluster is ever so far ahead; and who really is that late hears it from those whom it asks itself.
Without a bound, one request from a stranger would use up all epochs that there are."""


class LogView(Protocol):
    """What the machine reads of the log."""

    @property
    def start(self) -> Position:
        """Where it begins, and the epoch of the record before that, which only snapshots hold."""

    @property
    def end(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """Of the last record, or of the snapshot that stands for it; 0 if there is neither."""

    @property
    def snapshot(self) -> SnapshotId:
        """The newest; its end is 0 if there is none."""

    def end_of(self, epoch: int) -> Position:
        """The largest epoch here that is not above `epoch`, and where it ends."""


class PendingChange(NamedTuple):
    """A change of the voters that somebody waits for."""

    ticket: int
    due: Millis
    """When whoever waits is told to ask again."""
    candidate: AddVoter | None = None
    """Who shall vote and is being asked whether it can."""
    at: int = -1
    """Where the log names the new voters."""


class Member(ABC):
    """State that every role shares, and how epochs move it on."""

    def __init__(
        self,
        own: Replica,
        voters: Voters,
        stored: ElectionState,
        log: LogView,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self.own = own
        self.node = own.id
        self.voters = voters
        self.voters_at = -1
        """Where the log names them; -1 if the configuration does, or formatting did."""
        self.voters_before: Voters | None = None
        """Who voted until then."""
        self.endpoints: tuple[Endpoint, ...] = ()
        """Where this node listens for the others; none if it never votes."""
        self.joins = False
        """Whether this node asks for a vote by itself (controller.quorum.auto.join.enable)."""
        self.log = log
        self.timeouts = timeouts
        self.epoch = max(stored.epoch, log.last_epoch, 0)
        current = stored.epoch == self.epoch
        self.role = Role.RESIGNED if current and stored.leader == own.id else Role.UNATTACHED
        self.leader: int = NO_NODE
        self.voted = Replica(NO_NODE)
        if current and stored.voted != NO_NODE:
            self.voted = Replica(stored.voted, stored.voted_directory)
        self.high_watermark = -1
        """The end of what is committed; -1 until this node knows."""
        self.epoch_start = -1
        """Where the leader change of this node's own epoch stands."""
        self.progress: Progress | None = None
        """Of the others, while this node leads."""
        # A record of this epoch proves that somebody leads it, even if the vote was lost.
        self._epoch_is_led = (current and stored.leader != NO_NODE) or (
            log.last_epoch == self.epoch > 0
        )
        self._synced_end = log.end
        self._ballot = Ballot(own.id)
        self._defeats = 0
        self._missed: int = NO_NODE  # the leader of this epoch that fell silent
        self._loyal = False  # whether this epoch's leader has answered a fetch and not left
        self._left_epoch = -1  # the last epoch whose leader said that it leaves
        self._role_due = NEVER
        self._fetch_due = NEVER
        self._fetch_asked: Fetch | None = None  # the newest: answers to others are only heard
        self._ask_due = NEVER  # to tell, or to ask, voters again who did not answer
        self._introduce_due = NEVER  # to see whether the leader knows this voter as it is
        self._introduced = False  # to this epoch's leader
        self.change: PendingChange | None = None
        """Of the voters, while this node leads: one at a time."""
        self.told: dict[int, Voter] = {}
        """What static voters have said of themselves to this leader."""

    @property
    def due(self) -> Millis:
        """When `tick` is to be called at the latest."""
        change_due = NEVER if self.change is None else self.change.due
        return min(self._role_due, self._fetch_due, self._ask_due, self._introduce_due, change_due)

    @property
    def is_voter(self) -> bool:
        return self._is_among(self.voters)

    @property
    def may_stand(self) -> bool:
        """Whether this node can be elected.

        Who removed itself, and perhaps did not commit that, may have the longest log of all: no
        other could win against it, so it must lead once more, and go when that is committed.
        """
        settled = self.voters_at < max(self.high_watermark, self.log.snapshot.end)
        before = self.voters_before
        return self.is_voter or not (settled or before is None or not self._is_among(before))

    def _is_among(self, voters: Voters) -> bool:
        voter = voters.by_id.get(self.node)
        return voter is not None and Replica(voter.id, voter.directory).matches(self.own)

    @property
    def position(self) -> Position:
        """The end of this node's log."""
        return Position(self.log.last_epoch, self.log.end)

    @property
    def election(self) -> ElectionState:
        """What must never be forgotten."""
        if self.leader != NO_NODE:
            return ElectionState(self.epoch, self.leader)
        return ElectionState(self.epoch, NO_NODE, self.voted.id, self.voted.directory)

    @property
    def own_voter(self) -> Voter:
        """This node as the others should know it."""
        return Voter(self.node, self.own.directory, self.endpoints)

    # -- what the roles bring ---------------------------------------------------------------------

    @abstractmethod
    def _lead(self, now: Millis) -> list[Effect]:
        """Begin to lead, after a won election."""

    @abstractmethod
    def _announce(self, now: Millis) -> list[Effect]:
        """Let the others know that this node leads."""

    @abstractmethod
    def _fetch(self) -> list[Effect]:
        """Ask for what follows this log."""

    def _cease(self) -> list[Effect]:
        """Lead no longer: nobody's progress is this node's business, nor who shall vote."""
        self.progress = None
        change, self.change = self.change, None
        if change is None:
            return []
        reply = ChangeReply(self.epoch, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return [Conclude(change.ticket, reply)]

    # -- epochs -----------------------------------------------------------------------------------

    def _is_credible(self, epoch: int) -> bool:
        """Whether a request may speak of `epoch`: anybody who reaches this node can send one."""
        return epoch <= min(self.epoch + EPOCH_LEAP_MAX, EPOCH_MAX)

    def _learn(self, epoch: int, leader: int, now: Millis, chance: Chance) -> list[Effect]:
        """Somebody spoke of an epoch, and perhaps of who leads it."""
        effects: list[Effect] = []
        newer = EPOCH_MAX >= epoch > self.epoch
        if newer:
            self._become(Event.NEWER_EPOCH)
            effects += self._cease()
            self.epoch = epoch
            self.leader = NO_NODE
            self.voted = Replica(NO_NODE)
            self._epoch_is_led = False
            self._missed = NO_NODE
            self._ask_due = NEVER
            self._await_leader(now, chance)
        # That this very node leads may be said of its life before it lost its disk.
        known = leader not in (NO_NODE, self.node, self._missed)
        if epoch == self.epoch and known and (self.role, Event.LEADER_FOUND) in NEXT:
            self._become(Event.LEADER_FOUND)
            self.leader = leader
            self._epoch_is_led = True
            self._loyal = False
            self._defeats = 0
            self._ask_due = NEVER
            self._role_due = Millis(now + self.timeouts.fetch)
            self._introduced = False
            self._introduce_due = Millis(now + self.timeouts.fetch) if self.endpoints else NEVER
            return [*effects, SaveElection(self.election), *self._fetch()]
        return [*effects, SaveElection(self.election)] if newer else effects

    def _await_leader(self, now: Millis, chance: Chance) -> None:
        self._role_due = Millis(now + self._patience(chance))
        self._fetch_due = now if self.role is Role.UNATTACHED else NEVER

    def _patience(self, chance: Chance) -> int:
        """Different for each: two who wait equally long would stand against each other."""
        return chance.between(self.timeouts.election, 2 * self.timeouts.election)

    def _backoff(self, times: int) -> int:
        return min(self.timeouts.backoff_max, 50 << min(times, 10))

    def _retry(self, chance: Chance) -> int:
        return chance.between(self.timeouts.retry, 2 * self.timeouts.retry)

    def _others(self) -> list[int]:
        return [voter for voter in self.voters.ids if voter != self.node]

    def _become(self, event: Event) -> None:
        following = NEXT.get((self.role, event))
        invariant(following is not None, f"{event.name} while {self.role.name}")
        assert following is not None
        self.role = following
