"""Three members of a quorum, with real logs on disk, in one process and in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.model.ids import NO_NODE, Millis, Uuid
from penstock.platform.disk import Disk
from penstock.platform.workers import InlineWorkers
from penstock.protocol.generated.metadata_records import FeatureLevelRecord, TopicRecord
from penstock.raft.driver import NotLeader, RaftDriver
from penstock.raft.journal import Journal
from penstock.raft.messages import Ask, Fetch, Replica, Reply
from penstock.raft.settings import MetadataLogSettings
from penstock.raft.voters import Voter, static_voters
from penstock.storage.context import LogContext
from penstock.testing.sim.loop import SimulatedClock, SimulatedLoop, simulate

LEVEL = 30
VOTERS = static_voters(Voter(number) for number in (1, 2, 3))


class Dice:
    """Chance with a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def between(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(self._random.randbytes(16))


class Quorum:
    """Members that reach each other without a network, unless they are cut off."""

    def __init__(self, root: Path, loop: SimulatedLoop, seed: int = 1) -> None:
        self.root = root
        self.loop = loop
        self.dice = Dice(seed)
        self.clock = SimulatedClock(loop)
        self.members: dict[int, RaftDriver] = {}
        self.alone: set[int] = set()
        self.commits: dict[int, list[int]] = {}
        self.leads: list[tuple[int, bool]] = []

    async def start(self, number: int) -> RaftDriver:
        directory = self.root / str(number)
        directory.mkdir(exist_ok=True)
        journal = Journal(
            LogContext(Disk()),
            str(directory),
            VOTERS,
            MetadataLogSettings(),
            self.clock.now(),
            sole=False,
        )
        peers = Wires(self, number)
        driver = RaftDriver(journal, number, self.clock, self.dice, InlineWorkers(), peers)
        self.members[number] = driver
        commits = self.commits[number] = []

        def on_commit(end: int) -> None:
            commits.append(end)
            journal.replay_to(end)

        driver.on_leadership = lambda leads: self.leads.append((number, leads))
        await driver.start(on_commit)
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
        others = [number for number in VOTERS.ids if number != self._own]
        target = to.id if to.id != NO_NODE else others[quorum.dice.between(0, 1)]
        await asyncio.sleep(0.001)
        if {self._own, target} & quorum.alone or target not in quorum.members:
            raise OSError("cut off")
        member = quorum.members[target]
        if isinstance(ask, Fetch):
            reply: Reply = await member.answer_fetch(ask, 500, 1 << 20)
        else:
            reply = member.answer(ask)
        await asyncio.sleep(0.001)
        if {self._own, target} & quorum.alone:
            raise OSError("cut off")
        return to.id, reply

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


def test_three_members_elect_one_and_copy_what_it_decides(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        leader = await quorum.leader()
        await quorum.propose("a")
        await quorum.agree(await quorum.propose("b"))
        assert {member.leader for member in quorum.members.values()} == {leader.node_id}
        assert [quorum.names(number) for number in VOTERS.ids] == [["a", "b"]] * 3

    quorum = play(tmp_path, story)
    assert len(quorum.leads) == 1


@pytest.mark.parametrize("seed", range(5))
def test_when_the_leader_dies_another_goes_on_and_nothing_committed_is_lost(
    tmp_path: Path, seed: int
) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        await quorum.propose("a")
        first = (await quorum.leader()).node_id
        await quorum.crash(first)
        await quorum.propose("b")
        await quorum.start(first)
        await quorum.agree(await quorum.propose("c"))
        assert [quorum.names(number) for number in VOTERS.ids] == [["a", "b", "c"]] * 3

    play(tmp_path, story, seed)


def test_a_leader_that_is_cut_off_resigns_and_what_it_alone_wrote_goes(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        await quorum.propose("a")
        old = await quorum.leader()
        quorum.alone.add(old.node_id)
        waits = old.committed(old.propose([topic("lost")], LEVEL))
        with pytest.raises(NotLeader):
            await waits
        await quorum.leader(but=old.node_id)
        await quorum.propose("b")
        quorum.alone.clear()
        await quorum.agree(await quorum.propose("c"))
        assert [quorum.names(number) for number in VOTERS.ids] == [["a", "b", "c"]] * 3
        assert len({member.journal.log.end for member in quorum.members.values()}) == 1

    play(tmp_path, story)


def test_a_leader_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        await quorum.propose("a")
        old = await quorum.leader()
        before = quorum.loop.now
        del quorum.members[old.node_id]
        await old.close()
        await quorum.leader()
        assert quorum.loop.now - before < 1, "the others waited until they missed it"

    play(tmp_path, story)


def test_two_of_three_are_enough_and_one_is_not(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        leader = await quorum.leader()
        one, other = (number for number in VOTERS.ids if number != leader.node_id)
        await quorum.crash(one)
        await quorum.propose("a")
        await quorum.crash(other)
        with pytest.raises(NotLeader):
            await leader.committed(leader.propose([topic("b")], LEVEL))
        assert not leader.leading

    play(tmp_path, story)


def test_a_cluster_that_lost_its_power_begins_where_it_was(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        await quorum.propose("a")
        for number in VOTERS.ids:
            await quorum.crash(number)
        await quorum.start_all()
        await quorum.agree(await quorum.propose("b"))
        assert [quorum.names(number) for number in VOTERS.ids] == [["a", "b"]] * 3

    play(tmp_path, story)


def test_proposals_begin_with_a_level(tmp_path: Path) -> None:
    async def story(quorum: Quorum) -> None:
        await quorum.start_all()
        leader = await quorum.leader()
        record = FeatureLevelRecord(name="metadata.version", feature_level=LEVEL)
        await leader.committed(leader.propose([record], LEVEL))
        assert (
            quorum.members[leader.node_id].journal.loader.image.features.metadata_version == LEVEL
        )

    play(tmp_path, story)


def test_time_is_the_loops() -> None:
    loop = SimulatedLoop()
    clock = SimulatedClock(loop, skew_ms=5)

    async def wait() -> None:
        await asyncio.sleep(3600)

    simulate(wait(), loop)
    assert clock.monotonic() == Millis(3_600_000)
    assert clock.now() - clock.monotonic() == 1_700_000_000_005
