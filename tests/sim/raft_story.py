"""What happens in one world: half a minute of troubles, then peace, and what must be true then."""

from __future__ import annotations

from collections.abc import Callable

from penstock.model.ids import Millis
from penstock.raft.effects import (
    AppendFetched,
    AppendLeaderChange,
    AppendVoters,
    SaveElection,
    Truncate,
)
from penstock.raft.machine import Raft
from penstock.raft.roles import Role

from .raft_node import SimNode
from .raft_voters import change_voters, judge_voters, may_lose_its_disk, restart_movers
from .raft_world import World

TROUBLED_MS = 30_000
PEACE_MS = 20_000
DURABLE_STEPS = (SaveElection, AppendFetched, AppendLeaderChange, AppendVoters, Truncate)

Teller = Callable[[str], None]


def live(seed: int, machine: type[Raft] = Raft, teller: Teller | None = None) -> World:
    """The whole story of one seed. Violation where a promise is broken on the way."""
    dynamic, joins = seed % 2 == 1, seed % 4 == 3
    nodes = (3, 3, 5)[seed % 3] if seed % 10 != 9 else 1
    world = World(
        seed, nodes, 2 if dynamic else 1, machine, dynamic=dynamic, joins=joins, teller=teller
    )
    for node in world.nodes.values():
        world.later(world.random.randint(0, 500), node.boot)
    when = 0
    while when < TROUBLED_MS - 700:
        when += world.random.randint(5, 700)
        world.at(when, lambda: trouble(world))
    for number in range(TROUBLED_MS // 40):
        world.at(40 * number, lambda number=number: propose(world, f"p{number}"))
    world.run(TROUBLED_MS)
    make_peace(world)
    world.run(TROUBLED_MS + PEACE_MS)
    return world


def judge(world: World) -> None:
    """After so long a peace all is well, and nobody is busier than it has to be."""
    judge_voters(world)
    leader = world.leader
    assert leader is not None, "nobody leads although all is well"
    nodes = world.nodes.values()
    assert {node.raft.epoch for node in nodes} == {leader.raft.epoch}
    latest = [world.committed[offset][1] for offset in sorted(world.committed)[-10:]]
    assert "z99" in latest, f"the last proposal was not committed; these were: {latest}"
    assert {node.committed for node in nodes} == {leader.committed}
    assert {node.log.end for node in nodes} == {leader.log.end}
    fetching = {node.own.id: node.fetching for node in nodes if node is not leader}
    assert set(fetching.values()) == {1}, f"fetches under way: {fetching}"


def propose(world: World, what: str) -> None:
    for node in world.nodes.values():
        node.propose(what)  # each who believes that it leads


def trouble(world: World) -> None:
    """One thing goes wrong, or right again."""
    node = world.nodes[world.random.choice(list(world.nodes))]
    kind = world.random.randrange(22 if world.dynamic else 18)
    if kind <= 1 and node.up:
        node.crash(power=world.random.random() < 0.5)
    elif kind <= 5 and not node.up:
        node.boot()
    elif kind in (6, 7, 8):
        cut_off(world, node, kind)
    elif kind == 9:
        disturb_network(world)
    elif kind == 10:
        node.asleep_until = Millis(world.now + world.random.randint(100, 4000))
        node.tell(f"sleeps until {node.asleep_until / 1000:.3f}")
    elif kind == 11 and node.up and node.raft.role is Role.LEADER:
        node.tell("stops leading")
        node.do(node.raft.stop(node.now))
    elif kind == 12 and node.up and node.committed > node.log.first:
        node.log.cut(world.random.randint(node.log.first, node.committed))
        node.tell(f"lets a snapshot stand for everything below {node.log.first}")
    elif kind == 13 and node.up:
        node.doom = (world.random.choice(DURABLE_STEPS), world.random.random() < 0.5)
    elif kind == 14:
        node.jump(world.random.randint(100, 5000))
    elif kind == 15:
        node.disk_slow = world.random.choice((0, 0, 200, 2500))
        node.tell(f"has a disk that takes {node.disk_slow} ms")
    elif kind == 16 and may_lose_its_disk(world, node):
        node.lose_disk()
    elif kind >= 18:
        change_voters(world, node)
    else:
        world.cut = set()
        world.tell("everybody reaches everybody")


def cut_off(world: World, node: SimNode, kind: int) -> None:
    own, chance = node.own.id, world.random
    ids = list(world.nodes)
    out = {(own, one) for one in ids if kind == 6 or chance.random() < 0.7}
    into = {(one, own) for one in ids if kind == 6 or chance.random() < 0.7}
    world.cut = out | into if kind == 6 else out if kind == 7 else into
    node.tell(f"is cut off: {sorted(world.cut)}")


def disturb_network(world: World) -> None:
    chance = world.random
    world.loss, world.doubling = chance.choice((0, 0.05, 0.3)), chance.choice((0, 0.2))
    world.delay_max = chance.choice((2, 10, 200, 900))
    world.tell(f"loss {world.loss}, doubling {world.doubling}, delay {world.delay_max} ms")


def make_peace(world: World) -> None:
    world.tell("peace")
    world.cut, world.loss, world.doubling, world.delay_max = set(), 0, 0, 10
    for node in world.nodes.values():
        node.asleep_until = Millis(0)
        node.disk_slow, node.doom = 0, None
        if not node.up:
            node.boot()
    restart_movers(world)
    for number in range(100):
        world.later(10_000 + 20 * number, lambda number=number: propose(world, f"z{number}"))
