"""Who leads the metadata log, and up to where it is committed.

Pure: time, chance and what happened come in; effects come out, to be carried out in their order.
What the log holds is read through `LogView`; the driver changes it as effects say, and tells when
it is durable. Who lacks something fetches it, and the offset of a fetch says that everything
before it is safe with the one who asks: so followers fetch only behind what they have synced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis
from penstock.model.invariants import invariant
from penstock.raft.ballot import Ballot
from penstock.raft.effects import (
    AppendFetched,
    AppendLeaderChange,
    Commit,
    Effect,
    SaveElection,
    Send,
    TakeSnapshot,
    Truncate,
)
from penstock.raft.election_state import ElectionState
from penstock.raft.messages import (
    Ask,
    BeginEpoch,
    EndEpoch,
    EpochReply,
    Fetch,
    FetchReply,
    Position,
    Replica,
    Vote,
    VoteReply,
)
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


class Raft:
    """One node's part in the quorum: as a voter, or as an observer that only copies."""

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

    # -- time -----------------------------------------------------------------------------------

    @property
    def due(self) -> Millis:
        """When `tick` is to be called at the latest."""
        return min(self._role_due, self._fetch_due, self._ask_due)

    @property
    def is_voter(self) -> bool:
        voter = self.voters.by_id.get(self.node)
        return voter is not None and Replica(voter.id, voter.directory).matches(self.own)

    def start(self, now: Millis, chance: Chance) -> list[Effect]:
        """The log is open. A sole voter need not wait for anybody."""
        if self.is_voter and len(self.voters.by_id) == 1:
            self._become(Event.ALONE)
            return self._stand(now, chance)
        self._await_leader(now, chance)
        return []

    def stop(self, now: Millis) -> list[Effect]:
        """The process is ending: the others need not wait until they miss this node."""
        return self._resign(Event.STOP, now) if self.role is Role.LEADER else []

    def tick(self, now: Millis, chance: Chance) -> list[Effect]:
        """Do what is due."""
        effects: list[Effect] = []
        if now >= self._role_due:
            effects += self._on_role_due(now, chance)
        if now >= self._ask_due:
            effects += self._announce(now) if self.role is Role.LEADER else self._ask_again()
        if now >= self._fetch_due:
            effects += self._fetch()
        return effects

    def _on_role_due(self, now: Millis, chance: Chance) -> list[Effect]:
        if self.role is Role.LEADER:
            return self._check_followers(now)
        if not self.is_voter:
            self._become(Event.LEFT_OUT)
            self._await_leader(now, chance)
            return []
        if self.role is Role.PROSPECTIVE:
            return self._give_up(now, chance)
        event = Event.DEFEATED if self.role is Role.CANDIDATE else Event.SILENCE
        return self._explore(event, now, chance)

    # -- standing -------------------------------------------------------------------------------

    def _explore(self, event: Event, now: Millis, chance: Chance) -> list[Effect]:
        """Ask whether an election could be won before an epoch is spent on it."""
        self._become(event)
        # Others may still believe in it, and would send this node back to it for ever.
        self._missed, self.leader = self.leader, NO_NODE
        return self._ask_for_votes(now, chance, pre=True)

    def _stand(self, now: Millis, chance: Chance) -> list[Effect]:
        self.epoch += 1
        self.voted = self.own
        self._epoch_is_led = False
        # A vote for oneself that nobody else hears need not be durable: until a leader is, the
        # epoch has left no trace, and the next start may use it again.
        alone = len(self.voters.by_id) == 1
        effects: list[Effect] = [] if alone else [SaveElection(self.election)]
        return effects + self._ask_for_votes(now, chance, pre=False)

    def _ask_for_votes(self, now: Millis, chance: Chance, *, pre: bool) -> list[Effect]:
        self._ballot = Ballot(self.node)
        self._role_due = Millis(now + self._patience(chance))
        self._fetch_due = self._ask_due = NEVER
        ask = Vote(self.epoch, self.own, self.position, pre)
        sends: list[Effect] = [Send(voter, ask) for voter in self._others()]
        return sends + self._count(now, chance)

    def _ask_again(self) -> list[Effect]:
        self._ask_due = NEVER
        if self.role not in (Role.PROSPECTIVE, Role.CANDIDATE):
            return []
        ask = Vote(self.epoch, self.own, self.position, self.role is Role.PROSPECTIVE)
        again, self._ballot.unasked = self._ballot.unasked, set()
        return [Send(voter, ask) for voter in sorted(again)]

    def on_vote_reply(
        self, voter: int, ask: Vote, reply: VoteReply, now: Millis, chance: Chance
    ) -> list[Effect]:
        """A voter answered."""
        effects = self._learn(reply.epoch, reply.leader, now, chance)
        if not self._asks(ask):
            return effects
        if reply.error is not ErrorCode.NONE:
            # It neither granted nor refused: it could not tell, or was not the one who was meant.
            return effects + self.lost(voter, ask, now, chance)
        self._ballot.take(voter, reply.granted)
        return effects + self._count(now, chance)

    def _asks(self, ask: Vote) -> bool:
        """Whether the answer to `ask` still matters."""
        role = Role.PROSPECTIVE if ask.pre else Role.CANDIDATE
        return self.role is role and ask.epoch == self.epoch

    def _count(self, now: Millis, chance: Chance) -> list[Effect]:
        if self._ballot.won(self.voters):
            if self.role is Role.CANDIDATE:
                return self._lead(now)
            self._become(Event.ENCOURAGED)
            return self._stand(now, chance)
        if self._ballot.lost(self.voters):
            if self.role is Role.PROSPECTIVE:
                return self._give_up(now, chance)
            # Not again at once: whoever won, or was beaten too, should get its chance.
            self._defeats += 1
            wait = chance.between(1, self._backoff(self._defeats))
            self._role_due = min(self._role_due, Millis(now + wait))
        return []

    def _give_up(self, now: Millis, chance: Chance) -> list[Effect]:
        """Too few would vote for this node: somebody may lead whom it does not hear."""
        self._become(Event.DISCOURAGED)
        self._missed = NO_NODE
        self._await_leader(now, chance)
        return []

    # -- granting -------------------------------------------------------------------------------

    def on_vote(self, ask: Vote, now: Millis, chance: Chance) -> tuple[VoteReply, list[Effect]]:
        """Another node wants to lead, or (`pre`) to know whether it could."""
        if ask.epoch < self.epoch:
            return VoteReply(self.epoch, self.leader, error=ErrorCode.FENCED_LEADER_EPOCH), []
        if not self._is_credible(ask.epoch):
            return VoteReply(self.epoch, self.leader, error=ErrorCode.INVALID_REQUEST), []
        effects = self._learn(ask.epoch, NO_NODE, now, chance)
        granted = self._grants(ask)
        if granted and not ask.pre and self.voted.id == NO_NODE:
            self.voted = ask.candidate
            self._role_due = Millis(now + self._patience(chance))
            effects.append(SaveElection(self.election))
        return VoteReply(self.epoch, self.leader, granted), effects

    def _grants(self, ask: Vote) -> bool:
        if ask.pre:
            # Who hears its leader does not help to unseat it.
            content = self.role is Role.LEADER or (self.role is Role.FOLLOWER and self._loyal)
            return not content and ask.log >= self.position
        if self._epoch_is_led:
            return False
        if self.voted.id != NO_NODE:
            return self.voted.matches(ask.candidate)
        return ask.log >= self.position

    # -- leading --------------------------------------------------------------------------------

    def _lead(self, now: Millis) -> list[Effect]:
        self._become(Event.ELECTED)
        self.leader = self.node
        self._epoch_is_led = True
        self._defeats = 0
        self.epoch_start = -1
        self.progress = Progress(self.node, self.voters, now)
        self._role_due = self._fetch_due = NEVER
        granted = tuple(sorted(self._ballot.granted))
        begun: list[Effect] = [
            SaveElection(self.election),
            AppendLeaderChange(self.epoch, granted),
        ]
        return begun + self._announce(now)

    def epoch_began(self, offset: int) -> None:
        """The leader change record stands at `offset`."""
        invariant(self.role is Role.LEADER, "only a leader begins an epoch in the log")
        self.epoch_start = offset

    def _announce(self, now: Millis) -> list[Effect]:
        """Tell the voters that do not fetch that they should, and see that most do."""
        assert self.progress is not None
        self._ask_due = NEVER
        if not self._others():
            return []
        if self._role_due == NEVER:
            self._role_due = Millis(now + self.timeouts.desertion)
        self._ask_due = Millis(now + self.timeouts.announcement)
        silent = self.progress.silent(Millis(now - self.timeouts.announcement))
        return [Send(voter, BeginEpoch(self.epoch, self.node)) for voter in silent]

    def _check_followers(self, now: Millis) -> list[Effect]:
        assert self.progress is not None
        self._role_due = Millis(self.progress.heard_by(now) + self.timeouts.desertion)
        if self._role_due > now:
            return []
        # The others may have elected somebody by now: clients must not be held here.
        return self._resign(Event.DESERTED, now)

    def _resign(self, event: Event, now: Millis) -> list[Effect]:
        assert self.progress is not None
        end = EndEpoch(self.epoch, self.node, self.progress.successors())
        self._become(event)
        self.leader = NO_NODE
        self.progress = None
        self._ask_due = NEVER
        self._role_due = Millis(now + 2 * self.timeouts.election)
        return [Send(voter, end) for voter in self._others()]

    def on_fetch(self, ask: Fetch, now: Millis) -> tuple[FetchReply, list[Effect]]:
        """A replica wants what follows its log.

        Where the reply has no error, no divergence and no snapshot, the driver adds the records,
        and waits for some if there are none.
        """
        refusal = self.refuse(ask.epoch)
        if refusal is not ErrorCode.NONE:
            return FetchReply(self.epoch, self.leader, error=refusal), []
        if ask.replica.id == self.node:
            # Another node with this one's id: what it has must not pass for what is durable here.
            return FetchReply(self.epoch, self.leader, error=ErrorCode.INVALID_REQUEST), []
        assert self.progress is not None
        reply = FetchReply(self.epoch, self.leader, self.high_watermark)
        start = self.log.start
        # Records of an older epoch than any here: whether they are ours can no longer be told.
        stranger = ask.log.end == start.end and ask.log.epoch != start.epoch
        if start.end > 0 and (ask.log.end < start.end or ask.log.epoch < start.epoch or stranger):
            return reply._replace(snapshot=self.log.snapshot), []
        parted = self._parted(ask.log)
        if parted is not None:
            return reply._replace(diverging=parted), []
        if ask.replica.id != NO_NODE:  # a consumer that looks around copies nothing
            self.progress.fetched(ask.replica, ask.log.end, self.log.end, now)
        effects = self._advance()
        return reply._replace(high_watermark=self.high_watermark), effects

    def refuse(self, epoch: int) -> ErrorCode:
        """Why a member of `epoch` cannot be served here; NONE if it can."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.role is not Role.LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _parted(self, other: Position) -> Position | None:
        """Where to look for the last record that both logs have; None if `other` is within ours."""
        if other.end == 0 or other == self.log.start:
            return None
        known = self.log.end_of(other.epoch)
        return None if known.epoch == other.epoch and other.end <= known.end else known

    def synced(self, end: int, now: Millis) -> list[Effect]:
        """This node's own log is durable up to `end`."""
        self._synced_end = end
        if self.role is Role.LEADER and self.progress is not None:
            self.progress.fetched(self.own, end, self.log.end, now)
            return self._advance()
        return self._fetch() if self.role in (Role.FOLLOWER, Role.UNATTACHED) else []

    def _advance(self) -> list[Effect]:
        assert self.progress is not None
        agreed = self.progress.agreed()
        # Counting replicas of an older epoch's records proves nothing: a voter without them
        # could still win. Once one record of this epoch is safe, all before it are.
        if self.epoch_start < 0 or agreed <= self.epoch_start or agreed <= self.high_watermark:
            return []
        self.high_watermark = agreed
        return [Commit(agreed)]

    # -- following ------------------------------------------------------------------------------

    def on_begin_epoch(
        self, ask: BeginEpoch, now: Millis, chance: Chance
    ) -> tuple[EpochReply, list[Effect]]:
        """Somebody leads."""
        if ask.epoch < self.epoch:
            return EpochReply(self.epoch, self.leader, ErrorCode.FENCED_LEADER_EPOCH), []
        if not self._is_credible(ask.epoch):
            return EpochReply(self.epoch, self.leader, ErrorCode.INVALID_REQUEST), []
        self._missed = NO_NODE  # it speaks for itself
        effects = self._learn(ask.epoch, ask.leader, now, chance)
        wrong = self.leader != ask.leader
        error = ErrorCode.INVALID_REQUEST if wrong else ErrorCode.NONE
        return EpochReply(self.epoch, self.leader, error), effects

    def on_end_epoch(
        self, ask: EndEpoch, now: Millis, chance: Chance
    ) -> tuple[EpochReply, list[Effect]]:
        """The leader leaves: stand as soon as one's place among the successors says."""
        if ask.epoch < self.epoch:
            return EpochReply(self.epoch, self.leader, ErrorCode.FENCED_LEADER_EPOCH), []
        if not self._is_credible(ask.epoch):
            return EpochReply(self.epoch, self.leader, ErrorCode.INVALID_REQUEST), []
        effects = self._learn(ask.epoch, ask.leader, now, chance)
        if self.role is Role.FOLLOWER and self.leader == ask.leader:
            self._loyal = False
            places = [each.matches(self.own) for each in ask.successors]
            place = places.index(True) if True in places else len(places)
            wait = self._backoff(place) if place else 0
            self._role_due = min(self._role_due, Millis(now + wait))
        return EpochReply(self.epoch, self.leader), effects

    def on_epoch_reply(self, reply: EpochReply, now: Millis, chance: Chance) -> list[Effect]:
        """A voter heard that an epoch began or ended; it may know of a later one."""
        return self._learn(reply.epoch, reply.leader, now, chance)

    def on_fetch_reply(
        self, sender: int, ask: Fetch, reply: FetchReply, now: Millis, chance: Chance
    ) -> list[Effect]:
        """Records, or where to look for them. `sender` is NO_NODE if anybody was asked."""
        effects = self._learn(reply.epoch, reply.leader, now, chance)
        if ask is not self._fetch_asked or any(isinstance(effect, Send) for effect in effects):
            # Another fetch is under way, perhaps to another leader. Answering each with the next
            # would keep all of them going for ever.
            return effects
        current = sender == self.leader and ask.epoch == reply.epoch == self.epoch
        if self.role is not Role.FOLLOWER or reply.error is not ErrorCode.NONE or not current:
            if self.role in (Role.FOLLOWER, Role.UNATTACHED):
                self._fetch_due = Millis(now + self._retry(chance))
            return effects
        self._loyal = True
        self._role_due = Millis(now + self.timeouts.fetch)
        if ask.log != self.position:
            return effects + self._fetch()  # it was asked before the log changed
        return effects + self._take(reply)

    def _take(self, reply: FetchReply) -> list[Effect]:
        if reply.diverging is not None:
            return self._go_back(reply.diverging)
        if reply.snapshot is not None:
            self._check_kept(reply.snapshot.end)
            return [TakeSnapshot(self.leader, reply.snapshot)]
        committed: list[Effect] = []
        # What comes with this reply is not durable here yet: it counts when the next one is.
        if min(reply.high_watermark, self._synced_end) > self.high_watermark:
            self.high_watermark = min(reply.high_watermark, self._synced_end)
            committed.append(Commit(self.high_watermark))
        if reply.records:
            return [*committed, AppendFetched(reply.records)]
        return committed + self._fetch()

    def _go_back(self, leaders: Position) -> list[Effect]:
        end = min(self.log.end_of(leaders.epoch).end, leaders.end)
        self._check_kept(end)
        return [Truncate(end)]

    def _check_kept(self, end: int) -> None:
        """What is committed stays: a snapshot is, even if this node has not heard of more yet."""
        committed = max(self.high_watermark, self.log.snapshot.end)
        invariant(
            end >= committed,
            f"the leader of epoch {self.epoch} lacks what was committed: its log ends at {end} "
            f"where ours is committed up to {committed}",
        )

    def log_replaced(self) -> list[Effect]:
        """The log was truncated, or begun anew behind a snapshot, durably: go on fetching."""
        self._synced_end = self.log.end
        return self._fetch() if self.role is Role.FOLLOWER else []

    def refetch(self, now: Millis, chance: Chance) -> list[Effect]:
        """What the leader sent could not be used: ask again, after a while."""
        self._fetch_due = Millis(now + self._retry(chance))
        return []

    def snapshot_grows(self, now: Millis) -> None:
        """Another piece of a snapshot came from the leader: it is alive."""
        if self.role is Role.FOLLOWER:
            self._role_due = Millis(now + self.timeouts.fetch)

    def _fetch(self) -> list[Effect]:
        self._fetch_due = NEVER
        if self.role not in (Role.FOLLOWER, Role.UNATTACHED) or self._synced_end != self.log.end:
            return []  # `synced` comes back to this
        # Even who is asked without being known to lead may do so, and count this node.
        to = self.leader if self.role is Role.FOLLOWER else NO_NODE
        self._fetch_asked = Fetch(self.epoch, self.own, self.position, self.high_watermark)
        return [Send(to, self._fetch_asked)]

    def lost(self, to: int, ask: Ask, now: Millis, chance: Chance) -> list[Effect]:
        """A node could not be asked, or did not answer."""
        if ask is self._fetch_asked:
            self._fetch_due = Millis(now + self._retry(chance))
        elif isinstance(ask, Vote) and self._asks(ask):
            self._ballot.miss(to)
            self._ask_due = Millis(now + self._retry(chance))
        return []  # a leader tells again by itself, and who resigned is missed soon enough

    # -- epochs ---------------------------------------------------------------------------------

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
