"""What can go wrong in a cluster, one thing at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.testing.sim.cluster import Cluster
from penstock.testing.sim.node import Machine

Trouble = Callable[[Cluster, Machine], bool]
"""Does something to a machine; False if it cannot be done now."""


def is_whole(cluster: Cluster) -> bool:
    """Whether every replica of everything is up and in sync: only then may one of them forget."""
    machines = cluster.machines.values()
    if not all(
        machine.ready and not machine.paused and machine.platter.well for machine in machines
    ):
        return False
    images = [machine.node.broker.image for machine in machines if machine.node is not None]
    newest = max(images, key=lambda image: image.offset)
    partitions = [
        state for topic in newest.topics.by_id.values() for state in topic.partitions.values()
    ]
    if not all(len(state.isr) == len(state.replicas) for state in partitions):
        return False
    rafts = [machine.node.controller.raft for machine in machines if machine.node is not None]
    return (
        len({raft.epoch for raft in rafts}) == 1
        and any(raft.leading for raft in rafts)
        and len({raft.journal.log.end for raft in rafts}) == 1
    )


def may_die(cluster: Cluster, machine: Machine) -> bool:
    """Whether a machine may go down without a word.

    One replica may forget what it did not sync. Until all are in sync again, those that have not
    forgotten must not come back as if they could have: nobody would know whom to believe, and a
    cluster whose replicas all end uncleanly promises nothing.
    """
    if cluster.forgetful is not None and is_whole(cluster):
        cluster.forgetful = None
    return cluster.forgetful in (None, machine.node_id)


def kill(cluster: Cluster, machine: Machine) -> bool:
    if not machine.up or not may_die(cluster, machine):
        return False
    cluster.tell(f"node {machine.node_id} is killed")
    machine.kill(power=False)
    return True


def kill_all(cluster: Cluster, _: Machine) -> bool:
    if cluster.forgetful is not None and not is_whole(cluster):
        return False
    for machine in cluster.machines.values():
        kill(cluster, machine)
    return True


def cut_power(cluster: Cluster, machine: Machine) -> bool:
    if not is_whole(cluster):
        return False
    cluster.tell(f"node {machine.node_id} loses its power")
    cluster.forgetful = machine.node_id
    machine.kill(power=True)
    return True


def lose_disk(cluster: Cluster, machine: Machine) -> bool:
    if not is_whole(cluster):
        return False
    cluster.tell(f"node {machine.node_id} gets a new disk")
    cluster.forgetful = machine.node_id
    machine.kill(power=True)
    machine.platter.replace()
    cluster.format(machine)
    return True


def boot(cluster: Cluster, machine: Machine) -> bool:
    if machine.up:
        return False
    cluster.tell(f"node {machine.node_id} starts")
    machine.boot()
    return True


def stop(cluster: Cluster, machine: Machine) -> bool:
    if not machine.ready or machine.paused:
        return False
    cluster.tell(f"node {machine.node_id} is asked to stop")
    machine.stop()
    return True


def pause(cluster: Cluster, machine: Machine) -> bool:
    if not machine.up or machine.paused:
        return False
    seconds = cluster.dice.choice((0.3, 1.5, 4.0))
    cluster.tell(f"node {machine.node_id} stands still for {seconds} s")
    process = machine.process
    machine.pause()

    def wake() -> None:
        if machine.process is process:
            machine.resume()

    cluster.loop.call_later(seconds, wake)
    return True


def isolate(cluster: Cluster, machine: Machine) -> bool:
    """Nobody reaches it, clients neither; or it reaches nobody."""
    ways = cluster.dice.choice(("both", "both", "in", "out"))
    others = [each.host for each in cluster.machines.values() if each is not machine]
    if cluster.dice.random() < 0.3:
        others += cluster.client_hosts
    cluster.tell(f"node {machine.node_id} is cut off, {ways}: {len(others)} hosts")
    for other in others:
        if ways != "out":
            cluster.network.cut(other, machine.host)
        if ways != "in":
            cluster.network.cut(machine.host, other)
    return True


def cut_from_controller(cluster: Cluster, machine: Machine) -> bool:
    """A leader of partitions that its followers and clients reach, and the controller does not."""
    for other in cluster.machines.values():
        leads = other.started and other.node is not None and other.node.controller.active
        if leads and other is not machine:
            cluster.tell(f"node {machine.node_id} is cut from controller {other.node_id}")
            cluster.network.cut(machine.host, other.host)
            if cluster.dice.random() < 0.7:
                cluster.network.cut(other.host, machine.host)
            return True
    return False


def part(cluster: Cluster, machine: Machine) -> bool:
    """Two nodes do not reach each other, and both reach everybody else."""
    other = cluster.dice.choice(list(cluster.machines.values()))
    if other is machine:
        return False
    cluster.tell(f"nodes {machine.node_id} and {other.node_id} do not reach each other")
    cluster.network.cut(machine.host, other.host)
    cluster.network.cut(other.host, machine.host)
    return True


def heal(cluster: Cluster, _: Machine) -> bool:
    if not cluster.network.cuts:
        return False
    cluster.tell("everybody reaches everybody")
    cluster.network.heal()
    return True


def change_weather(cluster: Cluster, _: Machine) -> bool:
    weather, dice = cluster.network.weather, cluster.dice
    weather.delay_ms_max = dice.choice((1.0, 2.0, 20.0, 200.0))
    weather.reset = dice.choice((0.0, 0.0, 0.01, 0.05))
    cluster.tell(f"delays up to {weather.delay_ms_max} ms, {weather.reset:.0%} resets")
    return True


def slow_link(cluster: Cluster, machine: Machine) -> bool:
    extra = cluster.dice.choice((0.0, 30.0, 300.0))
    cluster.tell(f"node {machine.node_id} is {extra} ms away")
    cluster.network.slow[machine.host] = extra
    return True


def slow_disk(cluster: Cluster, machine: Machine) -> bool:
    machine.workers.slow_ms = cluster.dice.choice((0, 0, 50, 700))
    cluster.tell(f"node {machine.node_id} has a disk that takes {machine.workers.slow_ms} ms")
    return True


def skew_clock(cluster: Cluster, machine: Machine) -> bool:
    machine.clock.skew_ms = cluster.dice.randint(-60_000, 60_000)
    cluster.tell(f"node {machine.node_id} has a clock that is {machine.clock.skew_ms} ms off")
    return True


def break_disk(cluster: Cluster, machine: Machine) -> bool:
    if not machine.up or not may_die(cluster, machine):
        return False
    cluster.tell(f"node {machine.node_id} has a disk that fails")
    machine.platter.broken = True
    return True


def fill_disk(cluster: Cluster, machine: Machine) -> bool:
    if not machine.up or not may_die(cluster, machine):
        return False
    cluster.tell(f"node {machine.node_id} has a disk that is full")
    machine.platter.capacity = machine.platter.used + cluster.dice.randint(0, 2000)
    return True


def die_while_writing(cluster: Cluster, machine: Machine) -> bool:
    """It dies at one of its next writes or syncs, which is not done."""
    if not machine.up or machine.platter.fuse or not may_die(cluster, machine):
        return False

    def die() -> bool:
        if not may_die(cluster, machine):
            return False
        power = is_whole(cluster)
        cluster.tell(f"node {machine.node_id} dies while it writes{', of no power' * power}")
        if power:
            cluster.forgetful = machine.node_id
        machine.kill(power=power)
        return True

    machine.platter.fuse = cluster.dice.randint(1, 60)
    machine.platter.on_fuse = die
    return True


def mend(cluster: Cluster, machine: Machine) -> None:
    """Everything about a machine is well again; it starts if it is down."""
    machine.resume()
    machine.workers.slow_ms = 0
    machine.platter.mend()
    cluster.network.slow.clear()
    if machine.up and machine.has_lost_a_directory:
        machine.kill(power=False)  # only a start takes a directory back
    if not machine.up:
        machine.boot()


WEIGHTS: dict[Trouble, int] = {
    kill: 4,
    kill_all: 1,
    cut_power: 4,
    lose_disk: 2,
    boot: 10,
    stop: 2,
    pause: 3,
    isolate: 3,
    cut_from_controller: 2,
    part: 2,
    heal: 8,
    change_weather: 2,
    slow_link: 1,
    slow_disk: 1,
    skew_clock: 1,
    die_while_writing: 4,
    break_disk: 1,
    fill_disk: 1,
}


async def make_trouble(cluster: Cluster, until: float) -> None:
    """One thing after another goes wrong, or right again."""
    dice = cluster.dice
    kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    while cluster.loop.now < until:
        await asyncio.sleep(dice.choice((0.05, 0.3, 0.3, 1.0)) * dice.random())
        machine = dice.choice(list(cluster.machines.values()))
        for _ in range(5):
            if dice.choices(kinds, weights)[0](cluster, machine):
                break
