"""Whatever happens to a leader, a follower and what lies between, in the end the logs are one.

Time is virtual, so a seed tells the same story each time.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.platform.clock import Clock
from penstock.platform.workers import InlineWorkers
from penstock.protocol.generated.fetch import PartitionData
from penstock.server.fetch_sessions import FetchSessions
from penstock.testing.sim.loop import SimulatedClock, SimulatedLoop, simulate
from tests.unit.server.following import FOLLOWER, LEADER, Follower, Leader, contents, until

PARTITIONS = 3
STEPS = 60
BOTH = (LEADER, FOLLOWER)
ERRORS = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
]


class Story:
    """A leader and a follower, and things that happen to them by chance."""

    def __init__(self, path: Path, seed: int, clock: Clock) -> None:
        self.chance = random.Random(seed)
        self.leader = Leader(path / "leader", InlineWorkers())
        self.follower = Follower(path / "follower", self.leader, clock)
        self.epochs = dict.fromkeys(range(PARTITIONS), 0)
        self.healed = False
        self.acts = [
            *[self._write] * 3,
            self._cut_off,
            self._forget,
            self._lead_on,
            self._lead_apart,
            self._delete_records,
        ]
        self.leader.spoil = self._spoil
        for index in range(PARTITIONS):
            self.leader.lead(0, index, segment_bytes=600)
            self.follower.follow(0, index, segment_bytes=700)

    def _spoil(self, answer: PartitionData) -> None:
        if self.healed or self.chance.random() > 0.3:
            return
        records = answer.records
        what = self.chance.randrange(4)
        if what == 0:
            answer.error_code = self.chance.choice(ERRORS)
            answer.records = b""
        elif isinstance(records, bytes) and records:
            if what == 1:
                answer.records = records[: self.chance.randrange(len(records))]
            elif what == 2:
                answer.records = records[:-1] + bytes([records[-1] ^ 1])

    async def step(self) -> None:
        index = self.chance.randrange(PARTITIONS)
        act = self.chance.choice(self.acts)
        act(index)
        await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.004]))

    def _write(self, index: int) -> None:
        self.leader.write(self.chance.randint(1, 5), index=index)

    def _cut_off(self, _: int) -> None:
        self.leader.reachable = not self.leader.reachable

    def _forget(self, _: int) -> None:
        self.leader.sessions = FetchSessions(
            self.chance.choice([0, 10]), iter(range(1000, 10_000)).__next__
        )

    def _lead_on(self, index: int) -> None:
        """A new epoch, of which one of the two hears first."""
        self.epochs[index] += 1
        first, second = self.leader.lead, self.follower.follow
        if self.chance.random() < 0.5:
            first, second = second, first
        first(self.epochs[index], index)
        second(self.epochs[index], index)

    def _lead_apart(self, index: int) -> None:
        """The follower leads, unheard by the leader, which is elected again."""
        copy = self.follower.partitions[index]
        self.epochs[index] += 1
        self.follower.replication.leave(copy)
        copy.lead(self.epochs[index], (FOLLOWER,), BOTH)
        for _ in range(self.chance.randrange(3)):
            self.follower.write(self.chance.randint(1, 4), index=index)
        self._lead_on(index)

    def _delete_records(self, index: int) -> None:
        held = self.leader.partitions[index].log
        held.advance_start(self.chance.randint(held.start, held.end))
        count = sum(segment.base <= held.start for segment in held.segments) - 1
        if count > 0:
            held.drop_segments(count, 0)

    def heal(self) -> None:
        self.healed = True
        self.leader.reachable = True

    def is_one(self) -> bool:
        return all(
            copy.high_watermark == source.high_watermark == source.log.end == copy.log.end
            and copy.log.start == source.log.start
            and contents(copy) == contents(source)
            for copy, source in (
                (self.follower.partitions[index], self.leader.partitions[index])
                for index in range(PARTITIONS)
            )
        )

    async def close(self) -> None:
        await self.follower.close()
        await self.leader.close()


async def tell(path: Path, seed: int, clock: Clock) -> None:
    """One story, to its good end."""
    story = Story(path, seed, clock)
    for _ in range(STEPS):
        await story.step()
    story.heal()
    for index in range(PARTITIONS):
        story.leader.write(1, index=index)
    await until(story.is_one, 20)
    await story.close()


@pytest.mark.parametrize("seed", range(15))
def test_logs_become_one_whatever_happened(tmp_path: Path, seed: int) -> None:
    loop = SimulatedLoop()
    simulate(tell(tmp_path, seed, SimulatedClock(loop)), loop)
