"""One member of a simulated quorum: the real machine, and a driver that can die at any step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.metadata.levels import KRAFT_VERSION, SUPPORTED
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.raft import effects as does
from penstock.raft.election_state import ElectionState
from penstock.raft.machine import Raft
from penstock.raft.member import NEVER
from penstock.raft.messages import (
    BeginEpoch,
    Change,
    EndEpoch,
    EpochReply,
    Fetch,
    FetchReply,
    Probe,
    ProbeReply,
    Replica,
    Vote,
    VoteReply,
)
from penstock.raft.roles import Role
from penstock.raft.voters import Voter

from .raft_log import Entry, SimLog

if TYPE_CHECKING:
    from .raft_world import World

FETCH_WAIT_MS = 300
BATCH_MAX = 3


class Violation(AssertionError):
    """The quorum did what a quorum must never do."""


class Died(Exception):
    """The process ended in the middle of a step: its disk failed, or its power."""


@dataclass
class Parked:
    """A fetch that waits at the leader."""

    ask: Fetch
    answer: Callable[[FetchReply], None]
    until: Millis


class SimNode:
    """One machine and what is around it."""

    def __init__(self, world: World, own: Replica) -> None:
        self.world = world
        self.own = own
        self.log = SimLog(world.configured)
        self.stored = ElectionState()
        self.port = 9093
        self.up = False
        self.life = 0
        self.raft: Raft
        self.committed = 0  # of this life
        self.parked: list[Parked] = []
        self.asleep_until = Millis(0)
        self.skew = 0
        self.disk_slow = 0
        self.doom: tuple[type, bool] | None = None
        """The kind of effect at which this node will die, and whether it is carried out before."""
        self.waiting: dict[int, Callable[[Any], None]] = {}
        """Those who asked for other voters, by their tickets."""
        self.fetching = 0
        """How many of its fetches are under way."""
        self._alarm = NEVER
        self._told: tuple[object, ...] = ()

    @property
    def now(self) -> Millis:
        """By this node's own clock."""
        return Millis(self.world.now + self.skew)

    @property
    def as_voter(self) -> Voter:
        """This node as a dynamic quorum should know it."""
        return self.world.voter(self.own, self.port)

    # -- life ---------------------------------------------------------------------------------

    def boot(self) -> None:
        self.up = True
        self.life += 1
        self.committed = 0
        self.fetching = 0
        self.parked = []
        self.waiting = {}
        self._alarm = NEVER
        self.log.durable = self.log.end  # what a killed process left is synced when it is opened
        self.tell(
            f"starts in epoch {self.stored.epoch}, led by {self.stored.leader}, its vote with "
            f"{self.stored.voted}, its log up to {self.log.end}"
        )
        self.raft = self.world.make(self)
        self.do(self.raft.start(self.now, self.world.dice))

    def crash(self, *, power: bool = True) -> None:
        """Without power, what was not synced is gone; of what was being written, some is there."""
        self.up = False
        self.life += 1
        self.doom = None
        if power:
            self.log.truncate(self.world.random.randint(self.log.durable, self.log.end))
        self.tell(f"{'loses its power' if power else 'is killed'}; its log ends at {self.log.end}")

    def lose_disk(self) -> None:
        """A new disk in the same node: it has promised nothing, and says so by its directory."""
        self.crash()
        self.tell("gets a new disk")
        self.log = SimLog(self.world.configured)
        self.stored = ElectionState()
        self.own = Replica(self.own.id, self.world.dice.uuid())

    def jump(self, wait: int) -> None:
        """The clock goes on by itself, as after the pause of a virtual machine."""
        self.tell(f"finds its clock {wait} ms later")
        self.skew += wait
        if self.up:
            self._alarm = NEVER
            self._plan()

    def tell(self, what: str) -> None:
        self.world.tell(f"node {self.own.id} {what}")

    def propose(self, what: str) -> None:
        if self.up and self.raft.role is Role.LEADER and self.raft.epoch_start >= 0:
            self._append([(self.raft.epoch, what)])

    # -- effects ------------------------------------------------------------------------------

    def do(self, effects: list[does.Effect]) -> None:
        life = self.life
        try:
            for effect in effects:
                self._do_or_die(effect)
                if life != self.life:
                    return
        except Died:
            self.crash()
            return
        self.world.check(self)
        self._tell_role()
        self._plan()

    def _do_or_die(self, effect: does.Effect) -> None:
        doomed = self.doom is not None and isinstance(effect, self.doom[0])
        if not doomed or (self.doom is not None and self.doom[1]):
            self._do(effect)
        if doomed and self.up:
            self.tell(f"dies at {type(effect).__name__}")
            raise Died

    def _tell_role(self) -> None:
        raft = self.raft
        told = (raft.role, raft.epoch, raft.leader)
        if told != self._told:
            self._told = told
            of = f" of node {raft.leader}" if raft.role is Role.FOLLOWER else ""
            self.tell(f"is {raft.role.name}{of} in epoch {raft.epoch}")

    def _do(self, effect: does.Effect) -> None:
        log = self.log
        if isinstance(effect, does.SaveElection):
            self.world.check_vote(self, effect.state)
            self.stored = effect.state
        elif isinstance(effect, does.AppendLeaderChange):
            self.world.note_leader(self)
            self.raft.epoch_began(log.end)
            unwritten = self.raft.unwritten_voters
            entries: list[Entry] = [(effect.epoch, "leader")]
            self._append(entries if unwritten is None else [*entries, (effect.epoch, unwritten)])
        elif isinstance(effect, does.AppendVoters):
            self.tell(f"lets {effect.voters.ids} vote from {log.end} on")
            self._append([(self.raft.epoch, effect.voters)])
        elif isinstance(effect, does.Conclude):
            self._conclude(effect)
        elif isinstance(effect, does.AppendFetched):
            self._append(self.world.unpack(effect.records))
        elif isinstance(effect, does.Truncate):
            self.tell(f"goes back from {log.end} to {effect.end}")
            self._check_kept(effect.end)
            log.truncate(effect.end)
            self._name_voters()
            self.do(self.raft.log_replaced())
        elif isinstance(effect, does.TakeSnapshot):
            self._take_snapshot(effect)
        elif isinstance(effect, does.Send):
            self.world.send(self, effect.to, effect.ask)
        elif isinstance(effect, does.Commit):
            self._commit(effect.high_watermark)

    def _append(self, entries: list[Entry]) -> None:
        self.log.append(entries)
        self._name_voters()
        life, end = self.life, self.log.end
        self.world.later(self.world.disk_ms(self), lambda: self._synced(life, end))
        self._serve_parked()

    def _name_voters(self) -> None:
        at, voters = self.log.voters
        if (at, voters) != (self.raft.voters_at, self.raft.voters):
            self.do(self.raft.set_voters(voters, at, self.log.voters_before, self.now))

    def _conclude(self, effect: does.Conclude) -> None:
        done = effect.reply.error is ErrorCode.NONE
        self.tell(f"answers for its voters: {effect.reply.error.name} {effect.reply.message}")
        if done and self.log.voters[0] >= self.log.end:
            raise Violation(f"node {self.own.id} tells of voters that its log does not name")
        answer = self.waiting.pop(effect.ticket, None)
        if answer is not None:
            answer(effect.reply)

    def _synced(self, life: int, end: int) -> None:
        if life != self.life:
            return
        end = min(end, self.log.end)
        self.log.durable = max(self.log.durable, end)
        self.do(self.raft.synced(self.log.durable, self.now))

    def _take_snapshot(self, effect: does.TakeSnapshot) -> None:
        before = (self.life, self.raft.epoch, self.raft.position)

        def install() -> None:
            if before == (self.life, self.raft.epoch, self.raft.position):
                self._check_kept(effect.snapshot.end)
                self.world.check_snapshot(self, effect.snapshot)
                self.tell(f"takes snapshot {effect.snapshot} in the place of its log")
                self.log.begin_behind(effect.snapshot, self.world.voters_below(effect.snapshot.end))
                self._name_voters()
                self.do(self.raft.log_replaced())
            elif before[0] == self.life:
                self.do(self.raft.refetch(self.now, self.world.dice))

        self.world.later(self.world.disk_ms(self) * 3, install)

    def _check_kept(self, end: int) -> None:
        if end < self.committed:
            raise Violation(f"node {self.own.id} drops {end} to {self.committed}: committed")

    def _commit(self, end: int) -> None:
        if end < self.committed:
            raise Violation(f"node {self.own.id}: high watermark from {self.committed} to {end}")
        leads = self.raft.role in (
            Role.LEADER,
            Role.RESIGNED,
        )  # who commits that it must go resigns
        if end > self.log.durable and not leads:
            raise Violation(f"node {self.own.id} commits {end} and has {self.log.durable}")
        if leads and self.log.at(end - 1)[0] != self.raft.epoch:
            raise Violation(f"node {self.own.id} commits {end}, an older epoch's, by counting")
        for offset in range(max(self.committed, self.log.first), end):
            self.world.note_committed(self, offset, self.log.at(offset))
        self.committed = end
        self._serve_parked()

    # -- requests -----------------------------------------------------------------------------

    def asked(self, meant: Replica, ask: Any, answer: Callable[[Any], None]) -> None:
        now, dice, life = self.now, self.world.dice, self.life
        reply: Any
        if isinstance(ask, Probe):
            answer(ProbeReply(SUPPORTED[KRAFT_VERSION]))
            return
        if isinstance(ask, Change):
            self.change(ask, answer)
            return
        if isinstance(ask, (Vote, BeginEpoch)) and not meant.matches(self.own):
            kind = VoteReply if isinstance(ask, Vote) else EpochReply
            answer(kind(self.raft.epoch, error=ErrorCode.INVALID_VOTER_KEY))
            return
        if isinstance(ask, Vote):
            reply, effects = self.raft.on_vote(ask, now, dice)
        elif isinstance(ask, BeginEpoch):
            reply, effects = self.raft.on_begin_epoch(ask, now, dice)
        elif isinstance(ask, EndEpoch):
            reply, effects = self.raft.on_end_epoch(ask, now, dice)
        else:
            self._fetched(ask, answer)
            return
        self.do(effects)
        if life == self.life:  # else it died of what it was to promise
            if isinstance(ask, Vote) and reply.granted and not ask.pre:
                self.world.note_vote(self, ask.epoch, ask.candidate.id)
            answer(reply)

    def change(self, ask: Change, answer: Callable[[Any], None]) -> None:
        """Somebody wants other voters."""
        ticket = self.world.number()
        self.waiting[ticket] = answer
        reply, effects = self.raft.on_change(ask, ticket, self.now)
        self.do(effects)
        if reply is not None:
            self.waiting.pop(ticket, None)
            answer(reply)

    def _fetched(self, ask: Fetch, answer: Callable[[FetchReply], None]) -> None:
        life = self.life
        reply, effects = self.raft.on_fetch(ask, self.now)
        self.do(effects)
        if life != self.life:
            return
        plain = reply.error is ErrorCode.NONE and not reply.diverging and not reply.snapshot
        if plain and ask.log.end == self.log.end and reply.high_watermark <= ask.high_watermark:
            until = Millis(self.world.now + FETCH_WAIT_MS)
            self.parked.append(Parked(ask, answer, until))
            life = self.life
            self.world.later(FETCH_WAIT_MS, lambda: life == self.life and self._serve_parked())
            return
        answer(self._with_records(ask, reply) if plain else reply)

    def _with_records(self, ask: Fetch, reply: FetchReply) -> FetchReply:
        first = ask.log.end - self.log.first
        return reply._replace(records=self.world.pack(self.log.entries[first : first + BATCH_MAX]))

    def _serve_parked(self) -> None:
        waiting, self.parked = self.parked, []
        for each in waiting:
            leads = self.raft.role is Role.LEADER and self.raft.epoch == each.ask.epoch
            news = self.log.end > each.ask.log.end
            news = news or self.raft.high_watermark > each.ask.high_watermark
            if leads and not news and self.world.now < each.until:
                self.parked.append(each)
                continue
            reply, effects = self.raft.on_fetch(each.ask, self.now)
            plain = reply.error is ErrorCode.NONE and not reply.diverging and not reply.snapshot
            each.answer(self._with_records(each.ask, reply) if plain else reply)
            self.do(effects)

    def answered(self, to: int, ask: Any, reply: Any) -> None:
        self.do(self.raft.on_reply(to, ask, reply, self.now, self.world.dice))

    # -- time ---------------------------------------------------------------------------------

    def _plan(self) -> None:
        due = self.raft.due
        if due < self._alarm:
            self._alarm = due
            life = self.life
            self.world.at(max(due - self.skew, self.world.now), lambda: self._ring(life, due))

    def _ring(self, life: int, due: Millis) -> None:
        if life != self.life or self._alarm != due:
            return
        if self.asleep_until > self.world.now:
            self.world.at(self.asleep_until, lambda: self._ring(life, due))
            return
        self._alarm = NEVER
        self.do(self.raft.tick(self.now, self.world.dice))


def said(ask: Any) -> str:
    """A question as a line of the transcript."""
    if isinstance(ask, Vote):
        kind = "would you vote" if ask.pre else "vote"
        return f"{kind} for me in epoch {ask.epoch}? My log ends at {ask.log.end}, {ask.log.epoch}"
    if isinstance(ask, BeginEpoch):
        return f"I lead epoch {ask.epoch}"
    if isinstance(ask, Probe):
        return "can you vote?"
    if isinstance(ask, Change):
        return f"other voters, please: {type(ask).__name__}"
    return f"I leave epoch {ask.epoch}: stand, {[each.id for each in ask.successors]}"
