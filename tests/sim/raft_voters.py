"""Voters that come and go in a world of troubles, and what must hold of them."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model.ids import Millis
from penstock.raft.messages import AddVoter, RemoveVoter, Replica
from penstock.raft.roles import Role
from penstock.raft.voters import Voters

from .raft_node import SimNode
from .raft_world import World


def change_voters(world: World, node: SimNode) -> None:
    """An operator asks whoever leads for one voter more or less; or a node moves."""
    if world.random.random() < 0.2:
        node.port += 1  # when it starts again
        return
    when_committed = world.random.random() < 0.7
    for leader in world.nodes.values():
        if leader.up and leader.raft.role is Role.LEADER and leader.asleep_until <= world.now:
            voters = leader.raft.voters
            known = voters.by_id.get(node.own.id)
            if known is None:
                leader.change(AddVoter(node.as_voter, when_committed), _ignore)
            elif _can_decide(world, voters.without(known.id)):
                leader.change(RemoveVoter(Replica(known.id, known.directory)), _ignore)


def may_lose_its_disk(world: World, node: SimNode) -> bool:
    """Of voters that are known by their disks, fewer than half: by whatever voters anybody goes by
    now, or will go by if this node becomes one. Otherwise nobody could ever decide anything."""
    if not world.dynamic:
        return node.own.id not in world.configured.by_id
    lost = Replica(node.own.id)
    for voters in _possible(world):
        grown = voters if node.own.id in voters.by_id else voters.with_voter(node.as_voter)
        if not all(_can_decide(world, each, lost) for each in (voters, grown)):
            return False
    return True


def _possible(world: World) -> Iterator[Voters]:
    committed = world.voters_below(1 << 60)
    yield world.configured if committed is None else committed
    for node in world.nodes.values():
        yield node.log.voters[1]
        yield from (voters for _, voters in node.log.named)


def _can_decide(world: World, voters: Voters, lost: Replica | None = None) -> bool:
    """Whether more than half of the voters have the disk that is meant, even without one."""
    sound = [
        each
        for each in voters.by_id.values()
        if (lost is None or each.id != lost.id)
        and Replica(each.id, each.directory).matches(world.nodes[each.id].own)
    ]
    return len(sound) >= voters.majority


def _ignore(_: object) -> None:
    pass


def judge_voters(world: World) -> None:
    """After so long a peace everybody knows who votes, and the leader is one of them."""
    leader = world.leader
    assert leader is not None, "nobody leads although all is well"
    voters = leader.raft.voters
    assert leader.raft.is_voter, "the leader has no vote"
    assert leader.raft.high_watermark > leader.raft.voters_at, "its voters were never committed"
    assert all(node.raft.voters == voters for node in world.nodes.values())
    if not world.dynamic:
        return
    for node in world.nodes.values():
        known = voters.by_id.get(node.own.id)
        if known is not None and known.directory == node.own.directory:
            assert known == node.as_voter, f"nobody knows where node {node.own.id} is now"
        elif world.joins:
            raise AssertionError(f"node {node.own.id} has not joined by itself")


def restart_movers(world: World) -> None:
    """Who moved tells so when it starts again."""
    for number, node in enumerate(world.nodes.values()):
        if node.up and node.raft.endpoints != node.as_voter.endpoints and world.dynamic:
            node.crash(power=False)
            world.later(10 + number, node.boot)
            node.asleep_until = Millis(0)
