"""What can happen to three nodes: each fault begins, lasts, and is put right.

A fault is a generator: up to its `yield` it does harm, and says to whom; after it, it repairs. It
draws its choices from the chance that it is given, so that a seed makes the same choices again.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator

from penstock.testing.history import Place
from penstock.testing.proxy import CUT, DEAF, MUTE, Conditions
from tests.system.chaos.disks import Image
from tests.system.chaos.trio import IDS, SESSION_SECONDS, Member, Trio

BEYOND_SESSION = SESSION_SECONDS + 1.5
RATE_MIN = 30_000

Harm = Iterator[str]
Fault = Callable[[Trio, list[Place], random.Random], Harm]


def leader_of_some(trio: Trio, places: list[Place], chance: random.Random) -> Member:
    return trio.members[trio.leader(chance.choice(places))]


def kill_leader(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """kill -9 of the node that leads a partition."""
    yield from _kill([leader_of_some(trio, places, chance)])


def kill_follower(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """kill -9 of a node that follows in a partition."""
    leader = leader_of_some(trio, places, chance).number
    yield from _kill([trio.members[chance.choice([each for each in IDS if each != leader])]])


def kill_controller(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """kill -9 of the node whose controller is active."""
    yield from _kill([trio.members[trio.active_controller()]])


def kill_all(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """kill -9 of all three at once."""
    yield from _kill(list(trio.members.values()))


def _kill(victims: list[Member]) -> Harm:
    for each in victims:
        each.kill()
    yield _names(victims)
    for each in victims:
        each.node.launch()


def pause_leader(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """SIGSTOP of a leader, until the others have taken it for dead."""
    yield from _pause(leader_of_some(trio, places, chance))


def pause_controller(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """SIGSTOP of the active controller, until another one is elected."""
    yield from _pause(trio.members[trio.active_controller()])


def _pause(victim: Member) -> Harm:
    victim.pause()
    try:
        time.sleep(BEYOND_SESSION)
        yield victim.name
    finally:
        victim.resume()


def restart_one(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """SIGTERM of one node, and a new start."""
    victim = trio.members[chance.choice(IDS)]
    status = victim.node.stop()
    assert status == 0, f"{victim.name} stopped with status {status}"
    yield victim.name
    victim.node.launch()


def rolling_restart(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """SIGTERM of one node after the other, each when all replicas are in sync again."""
    for victim in trio.members.values():
        status = victim.node.stop()
        assert status == 0, f"{victim.name} stopped with status {status}"
        victim.node.launch()
        trio.wait_settled()
    yield "all, one by one"


def unplug(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """A leader that nobody can reach, neither nodes nor clients."""
    victim = leader_of_some(trio, places, chance)
    roads = [*_between(trio, victim, brokers=True, controllers=True), ("client", victim.name)]
    yield from _under(trio, roads, CUT, f"{victim.name} from everybody")


def isolate(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """A leader that no other node can reach, while clients can."""
    victim = leader_of_some(trio, places, chance)
    roads = [*_between(trio, victim, brokers=True, controllers=True)]
    yield from _under(trio, roads, CUT, f"{victim.name} from the others")


def cut_leader_from_controllers(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """A leader that hears nothing of the quorum, while followers fetch from it."""
    active = trio.active_controller()
    led = [each for each in places if trio.leader(each) != active]
    victim = leader_of_some(trio, led or places, chance)
    roads = [*_between(trio, victim, brokers=False, controllers=True)]
    yield from _under(trio, roads, CUT, f"{victim.name} from the controllers")


def cut_active_controller(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """The active controller alone on one side, the other two on the other."""
    victim = trio.members[trio.active_controller()]
    roads = [*_between(trio, victim, brokers=False, controllers=True)]
    yield from _under(trio, roads, CUT, f"{victim.name}, the active one, from the controllers")


def cut_follower_from_leader(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """A follower that cannot fetch, though both are in touch with everybody else."""
    leader = leader_of_some(trio, places, chance)
    follower = trio.members[chance.choice([each for each in IDS if each != leader.number])]
    roads = [(follower.name, leader.name)]
    yield from _under(trio, roads, CUT, f"{follower.name} from {leader.name}")


def one_way(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """A node whose words, or whose answers, do not arrive."""
    victim = trio.members[chance.choice(IDS)]
    conditions, what = chance.choice([(DEAF, "is not heard"), (MUTE, "hears no answer")])
    roads = _between(trio, victim, brokers=True, controllers=True)
    outward = [road for road in roads if road[0] == victim.name]
    yield from _under(trio, outward, conditions, f"{victim.name} {what}")


def cut_clients_from_leader(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """A leader that no client can reach, though all nodes are well."""
    victim = leader_of_some(trio, places, chance)
    yield from _under(trio, [("client", victim.name)], CUT, f"clients from {victim.name}")


def slow_wires(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """Everything to and from one node takes longer."""
    victim = trio.members[chance.choice(IDS)]
    delay = chance.uniform(0.02, 0.15)
    roads = [*_between(trio, victim, brokers=True, controllers=True), ("client", victim.name)]
    conditions = Conditions(delay_seconds=delay)
    yield from _under(trio, roads, conditions, f"{victim.name} by {delay * 1000:.0f} ms")


def narrow_wires(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """Replication to and from one node gets little room."""
    victim = trio.members[chance.choice(IDS)]
    rate = chance.randrange(RATE_MIN, 10 * RATE_MIN)
    roads = [*_between(trio, victim, brokers=True, controllers=False)]
    conditions = Conditions(bytes_per_second=rate)
    yield from _under(trio, roads, conditions, f"{victim.name} to {rate / 1000:.0f} kB/s")


def reset_connections(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """All connections to one node are reset at once, again and again."""
    victim = trio.members[chance.choice(IDS)]
    for _ in range(5):
        for source in ("client", *(each.name for each in trio.members.values())):
            for destination in (victim.name, victim.controller):
                trio.proxy.reset(source, destination)
        time.sleep(chance.uniform(0.05, 0.5))
    yield victim.name


def full_disk(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """One node's second disk takes not another byte; its metadata is on the first."""
    victim = trio.members[chance.choice(IDS)]
    yield from _full(victim, [1])


def full_disks(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """No disk of the active controller's node takes another byte: the others do without it."""
    victim = trio.members[trio.active_controller()]
    yield from _full(victim, [0, 1])


def _full(victim: Member, numbers: list[int]) -> Harm:
    disks = [_image(victim, number) for number in numbers]
    for disk in disks:
        disk.fill()
    try:
        yield f"disks {numbers} of {victim.name}"
    finally:
        for disk in disks:
            disk.free()
        # Where writing failed, a directory is offline until its node starts again.
        victim.kill()
        victim.node.launch()


def lost_disk(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """One node's second disk fails under it, and is replaced by an empty one."""
    victim = trio.members[chance.choice(IDS)]
    disk = _image(victim, 1)
    disk.fail()
    try:
        yield f"disk 1 of {victim.name}"
    finally:
        victim.kill()
        disk.replace()
        victim.node.launch()


def lost_directory(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """Somebody removes one node's second log directory while it is in use."""
    victim = trio.members[chance.choice(IDS)]
    shutil.rmtree(victim.log_directories()[1])
    try:
        yield f"directory 1 of {victim.name}"
    finally:
        victim.kill()
        victim.node.launch()


def power_loss(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """One node goes down with everything that it had not synced."""
    victim = leader_of_some(trio, places, chance)
    cut_power(victim)
    yield victim.name
    victim.node.launch()


def cut_power(victim: Member) -> None:
    """Take a node and whatever its disks had not been told to keep."""
    disks = [_image(victim, number) for number in range(len(victim.disks))]
    for disk in disks:  # first, so that nothing is written on the way down
        disk.fail()
    victim.kill()
    for disk in disks:
        disk.remount()


def two_at_once(trio: Trio, places: list[Place], chance: random.Random) -> Harm:
    """One node is cut off while another, or the same one, is killed, stands still or forgets."""
    lonely, victim = (trio.members[chance.choice(IDS)] for _ in range(2))
    roads = [*_between(trio, lonely, brokers=True, controllers=True)]
    end = chance.choice(["killed", "paused", "without power" if _breakable(trio) else "killed"])
    harms = [
        _under(trio, roads, CUT, f"{lonely.name} from the others"),
        _end(victim, end),
    ]
    chance.shuffle(harms)
    told = []
    for harm in harms:
        told.append(next(harm))
        time.sleep(chance.uniform(0, BEYOND_SESSION))
    yield "; ".join(told)
    chance.shuffle(harms)
    for harm in harms:
        next(harm, None)
        time.sleep(chance.uniform(0, SESSION_SECONDS))


def _end(victim: Member, how: str) -> Harm:
    if how == "paused":
        victim.pause()
    elif how == "killed":
        victim.kill()
    else:
        cut_power(victim)
    yield f"{victim.name} is {how}"
    if how == "paused":
        victim.resume()
    else:
        victim.node.launch()


NODES: dict[str, Fault] = {
    "kill leader": kill_leader,
    "kill follower": kill_follower,
    "kill active controller": kill_controller,
    "kill all": kill_all,
    "pause leader": pause_leader,
    "pause active controller": pause_controller,
    "restart": restart_one,
    "rolling restart": rolling_restart,
    "two at once": two_at_once,
    "lost directory": lost_directory,
}
WIRES: dict[str, Fault] = {
    "unplug leader": unplug,
    "isolate leader": isolate,
    "cut leader from controllers": cut_leader_from_controllers,
    "cut active controller": cut_active_controller,
    "cut follower from leader": cut_follower_from_leader,
    "one way": one_way,
    "cut clients from leader": cut_clients_from_leader,
    "slow wires": slow_wires,
    "narrow wires": narrow_wires,
    "reset connections": reset_connections,
}
DISKS: dict[str, Fault] = {
    "full disk": full_disk,
    "full disks": full_disks,
    "lost disk": lost_disk,
    "power loss": power_loss,
}
UNSERVED = frozenset(
    (
        "kill all",
        "two at once",
        "cut clients from leader",
        # A client asks whom it is connected to for metadata, and may well know no other node than
        # the one that nobody has told that it leads no more: with Apache Kafka, too.
        "isolate leader",
        "cut leader from controllers",
        "cut active controller",
        "one way",
    )
)
"""Where some clients cannot be served while it lasts. Under all other faults they carry on."""


def possible(trio: Trio) -> dict[str, Fault]:
    """All faults that can be played on these nodes."""
    return {**NODES, **WIRES, **(DISKS if _breakable(trio) else {})}


def _breakable(trio: Trio) -> bool:
    return all(disk.breakable for each in trio.members.values() for disk in each.disks)


def _between(
    trio: Trio, victim: Member, *, brokers: bool, controllers: bool
) -> Iterator[tuple[str, str]]:
    """The roads between one node and the others, in both directions."""
    for other in trio.members.values():
        if other is victim:
            continue
        for one, two in ((victim, other), (other, victim)):
            if brokers:
                yield one.name, two.name
            if controllers:
                yield one.name, two.controller


def _under(trio: Trio, roads: list[tuple[str, str]], conditions: Conditions, what: str) -> Harm:
    for source, destination in roads:
        trio.proxy.set(source, destination, conditions)
    try:
        yield what
    finally:
        trio.proxy.clear()


def _image(member: Member, number: int) -> Image:
    disk = member.disks[number]
    assert isinstance(disk, Image), "this machine has no disks that can be broken"
    return disk


def _names(members: list[Member]) -> str:
    return ", ".join(each.name for each in members)
