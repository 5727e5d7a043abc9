"""What every member of the quorum has, whatever its role: an epoch, a vote, a leader. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.model.ids import NO_NODE, Millis
from penstock.model.invariants import invariant
from penstock.raft.ballot import Ballot
from penstock.raft.effects import Effect, SaveElection
from penstock.raft.election_state import ElectionState
from penstock.raft.messages import Fetch, Position, Replica
from penstock.raft.progress import Progress
from penstock.raft.roles import NEXT, Event, Role
from penstock.raft.timeouts import DEFAULT_TIMEOUTS, Timeouts

if TYPE_CHECKING:
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


class Member:
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
        self._role_due = NEVER
        self._fetch_due = NEVER
        self._fetch_asked: Fetch | None = None  # the newest: answers to others are only heard
        self._ask_due = NEVER  # to tell, or to ask, voters again who did not answer

    @property
    def due(self) -> Millis:
        """When `tick` is to be called at the latest."""
        return min(self._role_due, self._fetch_due, self._ask_due)

    @property
    def is_voter(self) -> bool:
        voter = self.voters.by_id.get(self.node)
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

    def set_voters(self, voters: Voters) -> None:
        """The log says, or says no longer, that these vote."""
        self.voters = voters
        if self.progress is not None:
            self.progress.set_voters(voters)

    # -- what the roles bring ---------------------------------------------------------------------

    def _lead(self, now: Millis) -> list[Effect]:
        raise NotImplementedError

    def _fetch(self) -> list[Effect]:
        raise NotImplementedError

    # -- epochs -----------------------------------------------------------------------------------

    def _is_credible(self, epoch: int) -> bool:
        """Whether a request may speak of `epoch`: anybody who reaches this node can send one."""
        return epoch <= min(self.epoch + EPOCH_LEAP_MAX, EPOCH_MAX)

    def _learn(self, epoch: int, leader: int, now: Millis, chance: Chance) -> list[Effect]:
        """Somebody spoke of an epoch, and perhaps of who leads it."""
        effects: list[Effect] = []
        if EPOCH_MAX >= epoch > self.epoch:
            self._become(Event.NEWER_EPOCH)
            self.epoch = epoch
            self.leader = NO_NODE
            self.voted = Replica(NO_NODE)
            self.progress = None
            self._epoch_is_led = False
            self._missed = NO_NODE
            self._ask_due = NEVER
            self._await_leader(now, chance)
            effects.append(SaveElection(self.election))
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
            return [SaveElection(self.election), *self._fetch()]
        return effects

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
