"""One member's machine in a chosen state, for tests that ask it one thing."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.model.ids import Millis, Uuid
from penstock.raft.effects import (
    Effect,
    Send,
)
from penstock.raft.election_state import ElectionState
from penstock.raft.machine import Raft
from penstock.raft.messages import (
    BeginEpoch,
    Fetch,
    FetchReply,
    Position,
    Replica,
    Vote,
    VoteReply,
)
from penstock.raft.roles import Role
from penstock.raft.snapshots import SnapshotId
from penstock.raft.voters import Voter, Voters, static_voters

ALONE = static_voters([Voter(1)])
THREE = static_voters([Voter(1), Voter(2), Voter(3)])
EMPTY = Position(0, 0)
T0 = Millis(1000)


class Lowest:
    """Chance that always draws the lowest: an election timeout is then 1000 ms."""

    def between(self, low: int, high: int) -> int:
        return low

    def uuid(self) -> Uuid:
        return Uuid(b"u" * 16)


LOW = Lowest()


@dataclass
class Log:
    """A log by its epochs' ends alone."""

    ends: list[Position] = field(default_factory=list)
    start: Position = EMPTY
    snapshot: SnapshotId = field(default_factory=lambda: SnapshotId(0, 0))

    @property
    def end(self) -> int:
        return self.ends[-1].end if self.ends else self.start.end

    @property
    def last_epoch(self) -> int:
        return self.ends[-1].epoch if self.ends else self.start.epoch

    def end_of(self, epoch: int) -> Position:
        return max((each for each in self.ends if each.epoch <= epoch), default=self.start)


def make(
    voters: Voters = THREE, log: Log | None = None, stored: ElectionState | None = None
) -> Raft:
    return Raft(Replica(1), voters, stored or ElectionState(), log or Log())


def started(raft: Raft) -> Raft:
    raft.start(T0, LOW)
    return raft


def sent(effects: list[Effect]) -> list[tuple[int, object]]:
    return [(effect.to, effect.ask) for effect in effects if isinstance(effect, Send)]


def follower(log: Log | None = None, epoch: int = 3) -> Raft:
    """Node 1 follows node 2, and was answered."""
    raft = started(make(log=log))
    raft.on_begin_epoch(BeginEpoch(epoch, 2), T0, LOW)
    return raft


def leader(log: Log | None = None) -> Raft:
    """Node 1 was elected by node 2; its leader change stands at the end of its log."""
    raft = started(make(log=log))
    now = Millis(T0 + 1000)
    raft.tick(now, LOW)
    raft.on_vote_reply(2, asked(raft, pre=True), VoteReply(raft.epoch, granted=True), now, LOW)
    raft.on_vote_reply(2, asked(raft, pre=False), VoteReply(raft.epoch, granted=True), now, LOW)
    assert raft.role is Role.LEADER
    raft.epoch_began(raft.log.end)
    assert isinstance(raft.log, Log)
    raft.log.ends.append(Position(raft.epoch, raft.log.end + 1))
    return raft


def asked(raft: Raft, *, pre: bool) -> Vote:
    return Vote(raft.epoch, raft.own, raft.position, pre)


def role_of(raft: Raft) -> Role:
    """For mypy, which takes a role that was looked at once for the role for ever."""
    return raft.role


def fetched(raft: Raft, reply: FetchReply, ask: Fetch | None = None) -> list[Effect]:
    """The newest fetch is answered, or another one."""
    ask = ask or raft._fetch_asked
    assert ask is not None
    return raft.on_fetch_reply(2, ask, reply, T0, LOW)
