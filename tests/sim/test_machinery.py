"""The simulated world itself: processes, connections and disks do what real ones do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.testing.sim.disk import Platter, SimulatedDisk
from penstock.testing.sim.loop import SimulatedLoop, simulate
from penstock.testing.sim.network import SimulatedNetwork
from penstock.testing.sim.process import Process


class World:
    """A loop, a network and a log of what happened."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimulatedLoop()
        self.network = SimulatedNetwork(self.loop, random.Random(seed))
        self.heard: list[Any] = []

    def process(self, host: str) -> Process:
        process = Process(host)
        self.network.boot(process)
        return process

    def play(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        simulate(story(), self.loop)


@pytest.fixture
def world() -> World:
    return World()


class Echo(asyncio.Protocol):
    """Says back what it hears, if it is a server; notes what it hears."""

    def __init__(self, world: World, answers: bool) -> None:
        self._world = world
        self._answers = answers
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._world.heard.append(data)
        if self._answers:
            self.transport.write(data.upper())

    def connection_lost(self, exc: Exception | None) -> None:
        self._world.heard.append("lost")


async def connect(world: World) -> tuple[Process, Process, Echo]:
    """A server, a client, and the client's end of a connection between them."""
    server, client = world.process("server"), world.process("client")
    world.network.listen(server, 1, lambda: Echo(world, answers=True))
    task = client.spawn(world.loop.create_connection(lambda: Echo(world, False), "server", 1))
    return server, client, (await task)[1]


async def ticks(world: World) -> None:
    while True:
        await asyncio.sleep(1)
        world.heard.append(round(world.loop.now))


def test_a_paused_process_makes_up_for_it_and_a_killed_one_never_does(world: World) -> None:
    async def story() -> None:
        process = world.process("a")
        process.spawn(ticks(world))
        await asyncio.sleep(2.5)
        process.pause()
        await asyncio.sleep(2)
        assert world.heard == [1, 2]
        world.loop.resume(process)
        await asyncio.sleep(1.2)
        assert world.heard == [1, 2, 4, 6]  # late, and then in its rhythm again
        process.kill()
        await asyncio.sleep(5)
        assert world.heard == [1, 2, 4, 6]

    world.play(story)


def test_bytes_of_a_connection_arrive_in_their_order(world: World) -> None:
    async def story() -> None:
        _, client, end = await connect(world)
        words = [b"a%d" % number for number in range(50)]
        for word in words:
            client.run(end.transport.write, word)
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        for heard, said in ((b"a", words), (b"A", [word.upper() for word in words])):
            found = [each for each in world.heard if each.startswith(heard)]
            assert b"".join(found) == b"".join(said)
            assert len(found) > 10

    world.network.weather.delay_ms_max = 100
    world.play(story)


def test_bytes_wait_where_a_link_is_cut_and_arrive_when_it_heals(world: World) -> None:
    async def story() -> None:
        _, client, end = await connect(world)
        world.network.cut("server", "client")
        client.run(end.transport.write, b"a")
        await asyncio.sleep(5)
        assert world.heard == [b"a"]  # the server heard it; its answer is on its way
        world.network.heal()
        await asyncio.sleep(1)
        assert world.heard == [b"a", b"A"]

    world.play(story)


@pytest.mark.parametrize("power", [False, True])
def test_a_killed_process_hangs_up_and_a_dark_machine_does_not(world: World, power: bool) -> None:
    async def story() -> None:
        server, client, end = await connect(world)
        server.kill()
        world.network.bury(server, power=power)
        await asyncio.sleep(5)
        assert world.heard == ([] if power else ["lost"])
        world.process("server")
        client.run(end.transport.write, b"are you there")
        await asyncio.sleep(1)
        assert world.heard == ["lost"]  # by now its kernel has said that it knows of nothing

    world.play(story)


def test_nobody_listens_where_nobody_runs(world: World) -> None:
    async def story() -> None:
        client = world.process("client")
        world.process("server")
        task = client.spawn(world.loop.create_connection(asyncio.Protocol, "server", 1))
        await asyncio.wait([task])
        assert isinstance(task.exception(), ConnectionRefusedError)

    world.play(story)


def disk(platter: Platter) -> SimulatedDisk:
    return SimulatedDisk(platter, lambda: 0)


def test_a_power_cut_leaves_what_was_synced_and_perhaps_more() -> None:
    kept = set()
    for seed in range(50):
        platter = Platter(random.Random(seed))
        before = disk(platter)
        before.mkdir("/data")
        file = before.open("/data/log", create=True)
        file.append(b"synced")
        file.sync()
        before.sync_directory("/data")
        before.sync_directory("/")
        file.append(b", not synced")
        platter.power_cut()
        found = disk(platter).read_bytes("/data/log")
        assert found.startswith(b"synced")
        kept.add(found)
    assert b"synced" in kept
    assert b"synced, not synced" in kept
    assert len(kept) > 5


def test_a_name_lasts_when_its_directory_is_synced() -> None:
    found = set()
    for seed in range(50):
        platter = Platter(random.Random(seed))
        before = disk(platter)
        before.write_atomic("/old", b"1")
        before.write_atomic("/new", b"2", sync=False)
        platter.power_cut()
        after = disk(platter)
        assert after.read_bytes("/old") == b"1"
        found.add(after.exists("/new"))
    assert found == {True, False}


def test_a_machine_dies_at_the_write_that_was_chosen() -> None:
    platter = Platter(random.Random(1))
    own = disk(platter)
    file = own.open("/log", create=True)

    def die() -> bool:
        own.alive = False
        return True

    platter.fuse, platter.on_fuse = 2, die
    file.append(b"a")
    with pytest.raises(OSError, match="died"):
        file.append(b"b")
    with pytest.raises(OSError, match="dead"):
        file.append(b"c")
    assert disk(platter).read_bytes("/log") == b"a"


def test_a_full_disk_takes_no_more_and_keeps_what_it_has() -> None:
    platter = Platter(random.Random(1))
    file = disk(platter).open("/log", create=True)
    platter.capacity = 3
    file.append(b"abc")
    with pytest.raises(OSError, match="full"):
        file.append(b"d")
    assert disk(platter).read_bytes("/log") == b"abc"
    file.truncate(1)
    file.append(b"de")
    assert disk(platter).read_bytes("/log") == b"ade"
