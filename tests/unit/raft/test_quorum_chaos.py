"""Members with real logs, whose workers take their time, under kills, cuts, snapshots and trims."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.model.ids import NO_NODE
from penstock.platform.workers import InlineWorkers
from penstock.raft.driver import NotLeader, RaftDriver
from penstock.raft.settings import MetadataLogSettings

from .quorum import LEVEL, VOTERS, Dice, Quorum, play, topic

SMALL = MetadataLogSettings(segment_bytes=600, snapshot_bytes=700, retention_bytes=1500)


class SlowWorkers(InlineWorkers):
    """Work that is done at some time, and told of at a later one."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._work(work))

    async def _work(self, work: Callable[[], Any]) -> Any:
        await asyncio.sleep(self._dice.between(0, 8) / 1000)
        outcome = work()
        await asyncio.sleep(self._dice.between(0, 8) / 1000)
        return outcome


class Chaos:
    """One story, by its seed."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self.dice = quorum.dice
        self.acknowledged: list[str] = []
        self.failures: list[BaseException] = []

    async def start(self, number: int) -> None:
        driver = self.quorum.open(number, SMALL, SlowWorkers(self.dice))

        def on_commit(end: int) -> None:
            driver.snapshot_if_due(driver.journal.replay_to(end).image)

        await driver.start(on_commit, self.failures.append)

    def kill(self, number: int) -> None:
        """The process is gone; what it wrote is there, synced or not."""
        driver: RaftDriver = self.quorum.members.pop(number)
        driver._closed = True
        if driver._alarm is not None:
            driver._alarm.cancel()
        driver._talks.cancel()
        driver.journal.log.abandon()

    async def propose(self, name: str) -> None:
        for member in list(self.quorum.members.values()):
            if member.leading:
                end = member.propose([topic(name)], LEVEL)
                try:
                    await asyncio.wait_for(member.committed(end), 1)
                except (NotLeader, TimeoutError):
                    return  # nobody was promised anything
                self.acknowledged.append(name)
                return

    async def trouble(self) -> None:
        quorum, kind = self.quorum, self.dice.between(0, 5)
        number = self.dice.between(1, 3)
        if kind <= 1 and number in quorum.members:
            self.kill(number)
        elif kind <= 3 and number not in quorum.members:
            await self.start(number)
        elif kind == 4:
            quorum.alone = {number}
        else:
            quorum.alone.clear()

    async def live(self) -> None:
        for number in VOTERS.ids:
            await self.start(number)
        proposals = []
        for number in range(200):
            await asyncio.sleep(self.dice.between(1, 200) / 1000)
            proposals.append(asyncio.create_task(self.propose(f"t{number:03d}")))
            if self.dice.between(0, 4) == 0:
                await self.trouble()
        self.quorum.alone.clear()
        for number in VOTERS.ids:
            if number not in self.quorum.members:
                await self.start(number)
        await asyncio.gather(*proposals)
        while "last" not in self.acknowledged:
            await asyncio.sleep(0.1)
            await self.propose("last")
        end = max(member.high_watermark for member in self.quorum.members.values())
        await self.quorum.agree(end)


@pytest.mark.parametrize("seed", [*range(5), 58, 110])
def test_what_was_acknowledged_is_with_everybody_in_the_end(tmp_path: Path, seed: int) -> None:
    told: list[Chaos] = []

    async def story(quorum: Quorum) -> None:
        chaos = Chaos(quorum)
        told.append(chaos)
        await chaos.live()
        names = [quorum.names(number) for number in VOTERS.ids]
        assert names[0] == names[1] == names[2]
        assert set(chaos.acknowledged) <= set(names[0])
        assert chaos.failures == []
        assert NO_NODE not in {member.leader for member in quorum.members.values()}
        for member in quorum.members.values():
            await member.close()

    play(tmp_path, story, seed)
    assert len(told[0].acknowledged) > 20


def test_a_seed_tells_the_same_story_twice(tmp_path: Path) -> None:
    stories = []
    for number in (1, 2):
        told: list[Chaos] = []

        async def story(quorum: Quorum, told: list[Chaos] = told) -> None:
            told.append(Chaos(quorum))
            await told[0].live()

        root = tmp_path / str(number)
        root.mkdir()
        stories.append((play(root, story, seed=5).loop.now, told[0].acknowledged))
    assert stories[0] == stories[1]
