"""Members of a quorum with real logs, in one process and in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from penstock.metadata.cluster import Endpoint
from penstock.metadata.levels import KRAFT_VERSION, SUPPORTED
from penstock.model.ids import NO_NODE, Uuid
from penstock.platform.disk import Disk
from penstock.platform.workers import InlineWorkers, Workers
from penstock.protocol.generated.metadata_records import TopicRecord
from penstock.raft.driver import RaftDriver
from penstock.raft.format import METADATA_DIRECTORY, write_bootstrap
from penstock.raft.journal import Journal
from penstock.raft.messages import (
    Ask,
    Change,
    Fetch,
    FetchSnapshot,
    Probe,
    ProbeReply,
    Replica,
    Reply,
)
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.voters import DYNAMIC_FROM, Voter, Voters, static_voters
from penstock.storage.context import LogContext
from penstock.testing.sim.loop import SimulatedClock, SimulatedLoop, simulate

LEVEL = 30
VOTERS = static_voters(Voter(number) for number in (1, 2, 3))


def named(number: int, port: int = 9093) -> Voter:
    """A voter of a dynamic quorum, with its first disk."""
    endpoint = Endpoint("CONTROLLER", f"host{number}", port, 0)
    return Voter(number, f"disk of {number}".encode().ljust(16, b"."), (endpoint,))


def dynamic(*numbers: int) -> Voters:
    return Voters({number: named(number) for number in numbers}, DYNAMIC_FROM)


class Dice:
    """Chance with a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def between(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(self._random.randbytes(16))

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class Quorum:
    """Members that reach each other without a network, unless they are cut off."""

    def __init__(self, root: Path, loop: SimulatedLoop, seed: int = 1) -> None:
        self.root = root
        self.loop = loop
        self.dice = Dice(seed)
        self.clock = SimulatedClock(loop)
        self.members: dict[int, RaftDriver] = {}
        self.alone: set[int] = set()
        self.known: dict[int, Voter] = {}
        """What members of a dynamic quorum say of themselves."""
        self.joins = False
        self.configured = VOTERS
        self.leads: list[tuple[int, bool]] = []

    def open(
        self,
        number: int,
        settings: MetadataLogSettings | None = None,
        workers: Workers | None = None,
    ) -> RaftDriver:
        """A member that is not started yet."""
        directory = self.root / str(number)
        directory.mkdir(exist_ok=True)
        journal = Journal(
            LogContext(Disk()),
            str(directory),
            self.configured,
            settings or MetadataLogSettings(),
            self.clock.now(),
            sole=False,
        )
        peers = Wires(self, number)
        workers = workers or InlineWorkers()
        own = self.known.get(number, Voter(number))
        driver = RaftDriver(
            journal,
            number,
            self.clock,
            self.dice,
            workers,
            peers,
            directory=own.directory,
            endpoints=own.endpoints,
            joins=self.joins,
        )
        self.members[number] = driver
        return driver

    def format(self, first: Voters, *members: int) -> None:
        """Begin a dynamic quorum; members that are not among the first are told of none."""
        self.configured = static_voters([])
        for number in members:
            self.known[number] = named(number)
            directory = self.root / str(number)
            (directory / METADATA_DIRECTORY).mkdir(parents=True)
            voters = first if number in first.by_id else None
            write_bootstrap(Disk(), str(directory), self.clock.now(), voters=voters)

    async def start(self, number: int) -> RaftDriver:
        driver = self.open(number)
        driver.on_leadership = lambda leads: self.leads.append((number, leads))
        await driver.start(lambda end: driver.journal.replay_to(end) and None)
        return driver

    async def start_all(self) -> None:
        for number in VOTERS.ids:
            await self.start(number)

    async def crash(self, number: int) -> None:
        """Gone without a word."""
        self.alone.add(number)
        await self.members.pop(number).close()
        self.alone.discard(number)

    async def leader(self, *, but: int = NO_NODE) -> RaftDriver:
        for _ in range(1000):
            for number, member in self.members.items():
                if member.leading and number not in self.alone and number != but:
                    return member
            await asyncio.sleep(0.01)
        raise AssertionError("nobody leads")

    async def agree(self, end: int) -> None:
        """Wait until everybody knows that all below `end` is committed."""
        for _ in range(1000):
            if all(member.high_watermark >= end for member in self.members.values()):
                return
            await asyncio.sleep(0.01)
        raise AssertionError({n: m.high_watermark for n, m in self.members.items()})

    async def propose(self, name: str) -> int:
        leader = await self.leader()
        end = leader.propose([topic(name)], LEVEL)
        await leader.committed(end)
        return end

    def names(self, number: int) -> list[str]:
        return sorted(self.members[number].journal.loader.image.topics.by_name)


class Wires:
    """What one member asks the others with."""

    def __init__(self, quorum: Quorum, own: int) -> None:
        self._quorum = quorum
        self._own = own

    async def ask(self, to: Replica, ask: Ask) -> tuple[int, Reply]:
        quorum = self._quorum
        others = [number for number in sorted(quorum.members) if number != self._own] or [NO_NODE]
        target = to.id if to.id != NO_NODE else others[quorum.dice.between(0, len(others) - 1)]
        await asyncio.sleep(0.001)
        if {self._own, target} & quorum.alone or target not in quorum.members:
            raise OSError("cut off")
        member = quorum.members[target]
        if isinstance(ask, Fetch):
            reply: Reply = await member.answer_fetch(ask, 500, 1 << 20)
        elif isinstance(ask, FetchSnapshot):
            reply = member.answer_snapshot(ask, 100)
        elif isinstance(ask, Probe):
            reply = ProbeReply(SUPPORTED[KRAFT_VERSION])
        elif isinstance(ask, Change):
            reply = await member.change_voters(ask)
        else:
            reply = member.answer(ask)
        await asyncio.sleep(0.001)
        if {self._own, target} & quorum.alone:
            raise OSError("cut off")
        return to.id, reply

    def learn(self, node: int, address: tuple[str, int]) -> None:
        pass

    def close(self) -> None:
        pass


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"\0"))


Story = Callable[[Quorum], Coroutine[Any, Any, None]]


def play(root: Path, story: Story, seed: int = 1) -> Quorum:
    loop = SimulatedLoop()
    asyncio.set_event_loop(loop)
    quorum = Quorum(root, loop, seed)
    simulate(story(quorum), loop)
    return quorum
