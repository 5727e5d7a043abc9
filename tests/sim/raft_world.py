"""A quorum in one process: virtual time, a network that misbehaves, disks that forget.

Every machine is the real one; the log, the disk and the network are models. One seed is one world:
the same seed gives the same story, event by event.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE, Millis, Uuid
from penstock.raft import effects as does
from penstock.raft.election_state import ElectionState
from penstock.raft.machine import NEVER, Raft
from penstock.raft.messages import (
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
from penstock.raft.roles import Role
from penstock.raft.snapshots import SnapshotId
from penstock.raft.timeouts import Timeouts
from penstock.raft.voters import Voter, static_voters

Entry = tuple[int, str]
"""(epoch, what was proposed)"""

NOTHING = SnapshotId(0, 0)
FETCH_WAIT_MS = 300
REQUEST_MS_MAX = 1500
BATCH_MAX = 3


class Violation(AssertionError):
    """The quorum did what a quorum must never do."""


@dataclass
class Dice:
    """Chance for the machines, from the world's seed."""

    random: random.Random

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(self.random.randbytes(16))


@dataclass
class SimLog:
    """A log as a list, with a start that snapshots move and an end of what is durable."""

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
        below = [at for at, entry in enumerate(self.entries) if entry[0] <= epoch]
        if not below:
            return self.start
        return Position(self.entries[below[-1]][0], self.first + below[-1] + 1)

    def at(self, offset: int) -> Entry:
        return self.entries[offset - self.first]

    def truncate(self, end: int) -> None:
        del self.entries[end - self.first :]
        self.durable = min(self.durable, end)

    def crash(self) -> None:
        self.truncate(self.durable)

    def begin_behind(self, snapshot: SnapshotId) -> None:
        self.entries.clear()
        self.durable = snapshot.end
        self.snapshot = snapshot

    def cut(self, end: int) -> None:
        """Let a snapshot stand for everything below `end`."""
        if end > self.first:
            gone = end - self.first
            self.snapshot = SnapshotId(end, self.at(end - 1)[0])
            del self.entries[:gone]


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
        self.log = SimLog()
        self.stored = ElectionState()
        self.up = False
        self.life = 0
        self.raft: Raft
        self.committed = 0  # of this life
        self.parked: list[Parked] = []
        self.asleep_until = Millis(0)
        self._alarm = NEVER

    # -- life ---------------------------------------------------------------------------------

    def boot(self) -> None:
        self.up = True
        self.life += 1
        self.committed = 0
        self.parked = []
        self._alarm = NEVER
        self.raft = self.world.make(self.own, self.stored, self.log)
        self.do(self.raft.start(self.world.now, self.world.dice))

    def crash(self) -> None:
        self.up = False
        self.life += 1
        self.log.crash()

    def lose_disk(self) -> None:
        """A new disk in the same node: it has promised nothing, and says so by its directory."""
        self.crash()
        self.log = SimLog()
        self.stored = ElectionState()

    def propose(self, what: str) -> None:
        if self.up and self.raft.role is Role.LEADER and self.raft.epoch_start >= 0:
            self._append([(self.raft.epoch, what)])

    # -- effects ------------------------------------------------------------------------------

    def do(self, effects: list[does.Effect]) -> None:
        for effect in effects:
            self._do(effect)
        self.world.check(self)
        self._plan()

    def _do(self, effect: does.Effect) -> None:
        log = self.log
        if isinstance(effect, does.SaveElection):
            self.world.check_vote(self, effect.state)
            self.stored = effect.state
        elif isinstance(effect, does.AppendLeaderChange):
            self.world.note_leader(self)
            self.raft.epoch_began(log.end)
            self._append([(effect.epoch, "leader")])
        elif isinstance(effect, does.AppendFetched):
            self._append(self.world.unpack(effect.records))
        elif isinstance(effect, does.Truncate):
            log.truncate(effect.end)
            self.do(self.raft.log_replaced())
        elif isinstance(effect, does.TakeSnapshot):
            self._take_snapshot(effect)
        elif isinstance(effect, does.Send):
            self.world.send(self, effect.to, effect.ask)
        elif isinstance(effect, does.Commit):
            self._commit(effect.high_watermark)

    def _append(self, entries: list[Entry]) -> None:
        self.log.entries += entries
        life, end = self.life, self.log.end
        self.world.later(self.world.disk_ms(), lambda: self._synced(life, end))
        self._serve_parked()

    def _synced(self, life: int, end: int) -> None:
        if life != self.life:
            return
        end = min(end, self.log.end)
        self.log.durable = max(self.log.durable, end)
        self.do(self.raft.synced(self.log.durable, self.world.now))

    def _take_snapshot(self, effect: does.TakeSnapshot) -> None:
        before = (self.life, self.raft.epoch, self.raft.position)

        def install() -> None:
            if before == (self.life, self.raft.epoch, self.raft.position):
                self.log.begin_behind(effect.snapshot)
                self.do(self.raft.log_replaced())

        self.world.later(self.world.disk_ms() * 3, install)

    def _commit(self, end: int) -> None:
        if end < self.committed:
            raise Violation(f"node {self.own.id}: high watermark from {self.committed} to {end}")
        if end > self.log.durable and self.raft.role is not Role.LEADER:
            raise Violation(f"node {self.own.id} commits {end} and has {self.log.durable}")
        for offset in range(max(self.committed, self.log.first), end):
            self.world.note_committed(self, offset, self.log.at(offset))
        self.committed = end
        self._serve_parked()

    # -- requests -----------------------------------------------------------------------------

    def asked(self, sender: int, ask: Any, answer: Callable[[Any], None]) -> None:
        now, dice = self.world.now, self.world.dice
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
        answer(reply)

    def _fetched(self, ask: Fetch, answer: Callable[[FetchReply], None]) -> None:
        reply, effects = self.raft.on_fetch(ask, self.world.now)
        self.do(effects)
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
            reply, effects = self.raft.on_fetch(each.ask, self.world.now)
            plain = reply.error is ErrorCode.NONE and not reply.diverging and not reply.snapshot
            each.answer(self._with_records(each.ask, reply) if plain else reply)
            self.do(effects)

    def answered(self, to: int, ask: Any, reply: Any) -> None:
        now, dice, raft = self.world.now, self.world.dice, self.raft
        if isinstance(reply, VoteReply):
            self.do(raft.on_vote_reply(to, ask, reply, now, dice))
        elif isinstance(reply, EpochReply):
            self.do(raft.on_epoch_reply(reply, now, dice))
        else:
            self.do(raft.on_fetch_reply(to, ask, reply, now, dice))

    # -- time ---------------------------------------------------------------------------------

    def _plan(self) -> None:
        due = self.raft.due
        if due < self._alarm:
            self._alarm = due
            life = self.life
            self.world.at(max(due, self.world.now), lambda: self._ring(life, due))

    def _ring(self, life: int, due: Millis) -> None:
        if life != self.life or self._alarm != due:
            return
        self._alarm = NEVER
        self.do(self.raft.tick(self.world.now, self.world.dice))


class World:
    """All nodes, the network between them, and what must hold."""

    def __init__(self, seed: int, nodes: int = 3, observers: int = 1, machine: type[Raft] = Raft):
        self.random = random.Random(seed)
        self.dice = Dice(self.random)
        self.now = Millis(0)
        self.machine = machine
        self.voters = static_voters(Voter(number) for number in range(1, nodes + 1))
        self.nodes = {
            number: SimNode(self, Replica(number)) for number in range(1, nodes + observers + 1)
        }
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.doubling = 0.0
        self.delay_max = 10
        self.leaders: dict[int, int] = {}
        self.committed: dict[int, Entry] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._packed: dict[bytes, list[Entry]] = {}
        self._numbers = 0

    def make(self, own: Replica, stored: ElectionState, log: SimLog) -> Raft:
        return self.machine(own, self.voters, stored, log, Timeouts())

    # -- time and chance ----------------------------------------------------------------------

    def at(self, when: int, what: Callable[[], object]) -> None:
        self._numbers += 1
        heapq.heappush(self._queue, (when, self._numbers, what))

    def later(self, wait: int, what: Callable[[], object]) -> None:
        self.at(self.now + wait, what)

    def run(self, until: int) -> None:
        while self._queue and self._queue[0][0] <= until:
            when, _, what = heapq.heappop(self._queue)
            self.now = Millis(max(self.now, when))
            self.events += 1
            what()
        self.now = Millis(until)

    def disk_ms(self) -> int:
        return self.random.choice((0, 1, 1, 2, 5, 40))

    # -- network ------------------------------------------------------------------------------

    def send(self, sender: SimNode, to: int, ask: Any) -> None:
        """Carry a request, and its answer back; who gets none is told so in the end."""
        wanted = to
        if to == NO_NODE:
            others = [number for number in self.voters.ids if number != sender.own.id]
            to = self.random.choice(others)
        life, open_ = sender.life, [True]

        def lost() -> None:
            if open_[0] and life == sender.life and sender.up:
                open_[0] = False
                sender.do(sender.raft.lost(wanted, ask, self.now, self.dice))

        def back(reply: Any) -> None:
            if open_[0] and life == sender.life and sender.up:
                open_[0] = False
                # An answer is an answer, whoever was asked: NO_NODE if anybody was.
                sender.answered(wanted if wanted == NO_NODE else to, ask, reply)

        def arrive() -> None:
            node = self.nodes[to]
            if node.up:
                node.asked(
                    sender.own.id,
                    ask,
                    lambda reply: self._carry(to, sender.own.id, lambda: back(reply)),
                )

        self._carry(sender.own.id, to, arrive)
        if self.random.random() < self.doubling:
            self._carry(sender.own.id, to, arrive)
        self.later(REQUEST_MS_MAX, lost)

    def _carry(self, one: int, other: int, what: Callable[[], None]) -> None:
        if (one, other) in self.cut or self.random.random() < self.loss:
            return
        # Whoever sleeps gets its mail when it wakes.
        wait = max(
            self.random.randint(0, self.delay_max), self.nodes[other].asleep_until - self.now
        )
        self.later(wait, lambda: (one, other) in self.cut or what())

    def pack(self, entries: list[Entry]) -> bytes:
        data = repr(entries).encode() if entries else b""
        self._packed[data] = list(entries)
        return data

    def unpack(self, data: bytes) -> list[Entry]:
        return list(self._packed[data])

    # -- what must hold -----------------------------------------------------------------------

    def check_vote(self, node: SimNode, state: ElectionState) -> None:
        if state.voted != NO_NODE:
            before = self.votes.setdefault((state.epoch, node.own.id), state.voted)
            if before != state.voted:
                raise Violation(f"node {node.own.id} voted twice in epoch {state.epoch}")
        if state.epoch < node.stored.epoch:
            raise Violation(f"node {node.own.id}: epoch from {node.stored.epoch} to {state.epoch}")

    def note_leader(self, node: SimNode) -> None:
        epoch = node.raft.epoch
        before = self.leaders.setdefault(epoch, node.own.id)
        if before != node.own.id:
            raise Violation(f"epoch {epoch} has two leaders, {before} and {node.own.id}")
        for offset, entry in self.committed.items():
            if offset >= node.log.first and (
                offset >= node.log.end or node.log.at(offset) != entry
            ):
                raise Violation(f"the leader of epoch {epoch} lacks what is committed at {offset}")

    def note_committed(self, node: SimNode, offset: int, entry: Entry) -> None:
        before = self.committed.setdefault(offset, entry)
        if before != entry:
            raise Violation(f"offset {offset} was {before} and is {entry} at node {node.own.id}")

    def check(self, node: SimNode) -> None:
        if node.raft.high_watermark > node.log.end:
            raise Violation(f"node {node.own.id}: high watermark beyond the end of its log")

    @property
    def leader(self) -> SimNode | None:
        """Who leads the latest epoch, as it believes itself."""
        leading = [n for n in self.nodes.values() if n.up and n.raft.role is Role.LEADER]
        return max(leading, key=lambda node: node.raft.epoch, default=None)
