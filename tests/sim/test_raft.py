"""Quorums under every fault that the world can play, by seed."""

from __future__ import annotations

import os

import pytest

from penstock.model.ids import Millis
from penstock.raft.effects import Effect, Truncate
from penstock.raft.election_state import ElectionState
from penstock.raft.machine import LogView, Raft
from penstock.raft.messages import Position, Replica, Vote
from penstock.raft.roles import Role
from penstock.raft.timeouts import DEFAULT_TIMEOUTS, Timeouts
from penstock.raft.voters import Voters
from tests.sim.raft_world import World

SEEDS = int(os.environ.get("PENSTOCK_SIM_SEEDS", "40"))
SECONDS = 30
PLANTED_SEEDS_MAX = 200


def live(seed: int, machine: type[Raft] = Raft) -> World:
    """Half a minute of troubles, then peace: the whole story of one seed."""
    world = World(seed, nodes=(3, 3, 5)[seed % 3], observers=1, machine=machine)
    for node in world.nodes.values():
        world.later(world.random.randint(0, 500), node.boot)
    until = SECONDS * 1000
    when = 0
    while when < until - 700:
        when += world.random.randint(5, 700)
        world.at(when, lambda: trouble(world))
    for number in range(until // 40):
        world.at(40 * number, lambda number=number: propose(world, f"p{number}"))
    world.run(until)
    make_peace(world)
    world.run(until + 20_000)
    return world


def propose(world: World, what: str) -> None:
    for node in world.nodes.values():
        node.propose(what)  # each who believes that it leads


def trouble(world: World) -> None:
    """One thing goes wrong, or right again."""
    chance = world.random
    node = world.nodes[chance.choice(list(world.nodes))]
    ids = list(world.nodes)
    kind = chance.randrange(12)
    if kind <= 1 and node.up:
        node.crash()
    elif kind <= 4 and not node.up:
        node.boot()
    elif kind == 5:
        world.cut = {(one, node.own.id) for one in ids} | {(node.own.id, one) for one in ids}
    elif kind == 6:
        world.cut = {(node.own.id, one) for one in ids if chance.random() < 0.7}
    elif kind == 7:
        world.cut = {(one, node.own.id) for one in ids if chance.random() < 0.7}
    elif kind == 8:
        world.loss, world.doubling = chance.choice((0, 0.05, 0.3)), chance.choice((0, 0.2))
        world.delay_max = chance.choice((2, 10, 200, 900))
    elif kind == 9:
        node.asleep_until = type(world.now)(world.now + chance.randint(100, 4000))
    elif kind == 10 and node.up and node.raft.role is Role.LEADER:
        node.do(node.raft.stop(world.now))
    elif kind == 11 and node.up and node.committed > node.log.first:
        node.log.cut(chance.randint(node.log.first, node.committed))
    else:
        world.cut = set()


def make_peace(world: World) -> None:
    world.cut, world.loss, world.doubling, world.delay_max = set(), 0, 0, 10
    for node in world.nodes.values():
        node.asleep_until = type(world.now)(0)
        if not node.up:
            node.boot()
    for number in range(100):
        world.later(10_000 + 20 * number, lambda number=number: propose(world, f"z{number}"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_quorum_keeps_its_promises_and_recovers(seed: int, machine: type[Raft] = Raft) -> None:
    world = live(seed, machine)
    leader = world.leader
    assert leader is not None, "nobody leads although all is well"
    assert {node.raft.epoch for node in world.nodes.values()} == {leader.raft.epoch}
    assert world.committed[leader.committed - 1][1] == "z99"
    assert {node.committed for node in world.nodes.values()} == {leader.committed}
    assert {node.log.end for node in world.nodes.values()} == {leader.log.end}


def test_a_seed_tells_the_same_story_twice() -> None:
    one, other = live(7), live(7)
    assert (one.events, one.leaders, one.committed) == (
        other.events,
        other.leaders,
        other.committed,
    )


class VotesForAnybody(Raft):
    """Grants its vote to a log that lacks what its own has."""

    def _grants(self, ask: Vote) -> bool:
        return super()._grants(ask._replace(log=max(ask.log, self.position)))


class ForgetsItsVote(Raft):
    """Votes again in an epoch in which it voted before."""

    def _grants(self, ask: Vote) -> bool:
        if not ask.pre:
            self.voted = self.voted._replace(id=-1)
        return super()._grants(ask)


class LeadsTwice(Raft):
    """Goes on leading its epoch after a restart, without its log's end."""

    def __init__(
        self,
        own: Replica,
        voters: Voters,
        stored: ElectionState,
        log: LogView,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        super().__init__(
            own, voters, stored._replace(epoch=max(0, stored.epoch - 1)), log, timeouts
        )


class FetchesBeforeItSyncs(Raft):
    """Says that it has what a crash could still take."""

    def _fetch(self) -> list[Effect]:
        self._synced_end = self.log.end
        return super()._fetch()

    def synced(self, end: int, now: Millis) -> list[Effect]:
        return super().synced(max(end, self.log.end), now)


class CommitsWithTooFew(Raft):
    """Counts one voter too few."""

    def _advance(self) -> list[Effect]:
        progress = self.progress
        assert progress is not None
        voters = [copy.end for at, copy in progress.copies.items() if at.id in self.voters.by_id]
        agreed = sorted(voters, reverse=True)[self.voters.majority - 2]
        progress.agreed = lambda: agreed  # type: ignore[method-assign]
        return super()._advance()


class TakesAnyLog(Raft):
    """Does not ask whether a follower's log is the beginning of its own."""

    def _parted(self, other: Position) -> Position | None:
        return None


class GoesBackTooLittle(Raft):
    """Keeps one record that the leader never had."""

    def _go_back(self, leaders: Position) -> list[Effect]:
        return [
            Truncate(min(effect.end + 1, self.log.end)) if isinstance(effect, Truncate) else effect
            for effect in super()._go_back(leaders)
        ]


PLANTED = [
    VotesForAnybody,
    ForgetsItsVote,
    LeadsTwice,
    FetchesBeforeItSyncs,
    CommitsWithTooFew,
    TakesAnyLog,
    GoesBackTooLittle,
]


@pytest.mark.parametrize("broken", PLANTED)
def test_a_planted_bug_is_found(broken: type[Raft]) -> None:
    for seed in range(PLANTED_SEEDS_MAX):
        try:
            test_a_quorum_keeps_its_promises_and_recovers(seed, broken)
        except AssertionError:
            return
    raise AssertionError(f"{broken.__name__} was not found in {PLANTED_SEEDS_MAX} worlds")
