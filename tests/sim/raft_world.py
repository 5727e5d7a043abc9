"""A quorum in one process: virtual time, a network that misbehaves, disks that forget.

Every machine is the real one; the log, the disk and the network are models. One seed is one world:
the same seed gives the same story, event by event.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.metadata.cluster import Endpoint
from penstock.model.ids import NO_NODE, Millis, Uuid
from penstock.raft.election_state import ElectionState
from penstock.raft.machine import Raft
from penstock.raft.messages import Fetch, Replica
from penstock.raft.roles import Role
from penstock.raft.snapshots import SnapshotId
from penstock.raft.timeouts import Timeouts
from penstock.raft.voters import Voter, Voters, static_voters

from .raft_log import Entry
from .raft_node import SimNode, Violation, said

REQUEST_MS_MAX = 1500


@dataclass
class Dice:
    """Chance for the machines, from the world's seed."""

    random: random.Random

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(self.random.randbytes(16))

    def token_bytes(self, count: int) -> bytes:
        return self.random.randbytes(count)


class World:
    """All nodes, the network between them, and what must hold."""

    def __init__(
        self,
        seed: int,
        nodes: int = 3,
        observers: int = 1,
        machine: type[Raft] = Raft,
        *,
        dynamic: bool = False,
        joins: bool = False,
        teller: Callable[[str], None] | None = None,
    ) -> None:
        """`dynamic` voters are known by their disks, and may change; with `joins` nodes see to it
        by themselves that they vote. `teller` hears what happens."""
        self.teller = teller
        self.random = random.Random(seed)
        self.dice = Dice(self.random)
        self.now = Millis(0)
        self.machine = machine
        self.dynamic = dynamic
        self.joins = joins
        own = {
            number: Replica(number, self.dice.uuid()) if dynamic else Replica(number)
            for number in range(1, nodes + observers + 1)
        }
        voters = static_voters(
            self.voter(own[number]) if dynamic else Voter(number) for number in range(1, nodes + 1)
        )
        self.configured: Voters = voters._replace(kraft_version=1 if dynamic else 0)
        self.nodes = {number: SimNode(self, each) for number, each in own.items()}
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.doubling = 0.0
        self.delay_max = 10
        self.leaders: dict[int, int] = {}
        self.committed: dict[int, Entry] = {}
        self.voters_committed: dict[int, Voters] = {}
        self.votes: dict[tuple[int, Replica], int] = {}
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._packed: dict[bytes, list[Entry]] = {}
        self._numbers = 0

    def make(self, node: SimNode) -> Raft:
        at, voters = node.log.voters
        raft = self.machine(node.own, voters, node.stored, node.log, Timeouts())
        raft.voters_at, raft.voters_before = at, node.log.voters_before
        raft.endpoints = node.as_voter.endpoints if self.dynamic else ()
        raft.joins = self.joins
        return raft

    def voter(self, own: Replica, port: int = 9093) -> Voter:
        return Voter(*own, (Endpoint("CONTROLLER", f"host{own.id}", port, 0),))

    def number(self) -> int:
        """One that nobody had before."""
        self._numbers += 1
        return self._numbers

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

    def disk_ms(self, node: SimNode) -> int:
        return self.random.choice((0, 1, 1, 2, 5, 40)) + node.disk_slow

    def tell(self, what: str) -> None:
        if self.teller is not None:
            self.teller(f"{self.now / 1000:8.3f}  {what}")

    # -- network ------------------------------------------------------------------------------

    def send(self, sender: SimNode, to: int, ask: Any) -> None:
        """Carry a request, and its answer back; who gets none is told so in the end."""
        wanted = to
        if to == NO_NODE:
            to = self.random.choice([each for each in self.nodes if each != sender.own.id])
        voter = sender.raft.voters.by_id.get(to)
        meant = Replica(to) if voter is None else Replica(to, voter.directory)
        life, open_ = sender.life, [True]
        fetches = isinstance(ask, Fetch)
        sender.fetching += fetches
        if fetches and ask.log.end > sender.log.durable:
            raise Violation(f"node {sender.own.id} says that it has what a power cut would take")
        if not fetches and self.teller is not None:
            sender.tell(f"to node {to}: {said(ask)}")

        def ends() -> bool:
            if not open_[0] or life != sender.life or not sender.up:
                return False
            open_[0] = False
            sender.fetching -= fetches
            return True

        def lost() -> None:
            if ends():
                sender.do(sender.raft.lost(wanted, ask, sender.now, self.dice))

        def back(reply: Any) -> None:
            if ends():
                # An answer is an answer, whoever was asked: NO_NODE if anybody was.
                sender.answered(wanted if wanted == NO_NODE else to, ask, reply)

        def arrive() -> None:
            node = self.nodes[to]
            if node.up:
                node.asked(
                    meant,
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

    def voters_below(self, end: int) -> Voters | None:
        """Who votes by what is committed below `end`; None if that says nothing of it."""
        at = max((each for each in self.voters_committed if each < end), default=None)
        return None if at is None else self.voters_committed[at]

    def note_vote(self, node: SimNode, epoch: int, candidate: int) -> None:
        if (node.stored.epoch, node.stored.voted) != (epoch, candidate):
            raise Violation(f"node {node.own.id} tells of a vote that it has not stored")
        before = self.votes.setdefault((epoch, node.own), candidate)
        if before != candidate:
            raise Violation(f"node {node.own.id} voted twice in epoch {epoch}")

    def check_snapshot(self, node: SimNode, snapshot: SnapshotId) -> None:
        last = self.committed.get(snapshot.end - 1)
        if last is None or last[0] != snapshot.epoch:
            raise Violation(f"node {node.own.id} takes {snapshot}, where {last} is committed")

    def check_vote(self, node: SimNode, state: ElectionState) -> None:
        if state.epoch < node.stored.epoch:
            raise Violation(f"node {node.own.id}: epoch from {node.stored.epoch} to {state.epoch}")

    def note_leader(self, node: SimNode) -> None:
        epoch = node.raft.epoch
        if self.votes.setdefault((epoch, node.own), node.own.id) != node.own.id:
            raise Violation(f"node {node.own.id} leads epoch {epoch} and voted for another")
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
        if isinstance(entry[1], Voters) and offset not in self.voters_committed:
            self._check_step(self.voters_below(offset) or self.configured, entry[1])
            self.voters_committed[offset] = entry[1]

    def _check_step(self, before: Voters, after: Voters) -> None:
        one, other = (
            {Replica(v.id, v.directory) for v in each.by_id.values()} for each in (before, after)
        )
        if len(one ^ other) > 1:
            raise Violation(f"from voters {before.ids} to {after.ids} in one step")

    def check(self, node: SimNode) -> None:
        if node.raft.high_watermark > node.log.end:
            raise Violation(f"node {node.own.id}: high watermark beyond the end of its log")
        raft = node.raft
        settled = raft.role is Role.LEADER and raft.established
        if settled and raft.voters_at < raft.high_watermark and not raft.is_voter:
            raise Violation(f"node {node.own.id} leads, and it is committed that it must not")

    @property
    def leader(self) -> SimNode | None:
        """Who leads the latest epoch, as it believes itself."""
        leading = [n for n in self.nodes.values() if n.up and n.raft.role is Role.LEADER]
        return max(leading, key=lambda node: node.raft.epoch, default=None)
