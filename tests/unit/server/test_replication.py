"""Followers copy their leaders: bytes, marks, truncation, moves and throttles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.metadata.configs import BROKER
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY
from penstock.model.ids import Millis
from penstock.protocol.generated.fetch import FetchRequest
from penstock.protocol.generated.metadata_records import ConfigRecord
from penstock.storage.log import Log
from penstock.storage.moves import carry_out
from tests.unit.server.following import Follower, Leader, contents, until


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    made = Leader(tmp_path / "leader")
    yield made
    await made.close()


@pytest.fixture
async def follower(tmp_path: Path, leader: Leader) -> AsyncIterator[Follower]:
    made = Follower(tmp_path / "follower", leader)
    yield made
    await made.close()


def fetches(leader: Leader) -> list[FetchRequest]:
    return [request for request in leader.asked if isinstance(request, FetchRequest)]


async def test_a_follower_has_the_leaders_bytes_and_marks(
    leader: Leader, follower: Follower
) -> None:
    source = leader.lead(3)
    for count in (5, 1, 70):
        leader.write(count)
    copy = follower.follow(3)
    await until(lambda: copy.high_watermark == 76)
    assert contents(copy) == contents(source)
    assert copy.log.epochs.entries == [(3, 0)]
    leader.write(4)
    await until(lambda: copy.high_watermark == 80)
    source.log.advance_start(30)
    await until(lambda: copy.log.start == 30)
    ((_, following),) = follower.replication.lags()
    assert following.in_sync


async def test_a_fetch_says_who_asks_and_what_he_has(leader: Leader, follower: Follower) -> None:
    leader.lead(3)
    leader.write(5)
    copy = follower.follow(3)
    await until(lambda: copy.high_watermark == 5)
    first = fetches(leader)[0]
    assert first.replica_state is not None
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (2, 7)
    assert (first.max_wait_ms, first.min_bytes, first.max_bytes) == (500, 1, 10485760)
    (asked,) = first.topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (0, -1, 3)
    await until(lambda: len(fetches(leader)) > 1)
    (asked,) = fetches(leader)[1].topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (5, 3, 3)


async def test_what_is_idle_is_not_named_again(leader: Leader, follower: Follower) -> None:
    for index in range(50):
        leader.lead(0, index)
    for index in range(50):
        follower.follow(0, index)
    await until(lambda: len(fetches(leader)) > 5)
    leader.write(1, index=7)
    await until(lambda: follower.partitions[7].high_watermark == 1)
    sizes = [sum(len(topic.partitions) for topic in each.topics) for each in fetches(leader)]
    assert sum(sizes) <= 52


async def test_what_another_leader_wrote_is_cut_off_and_copied_anew(
    leader: Leader, follower: Follower
) -> None:
    source = leader.lead(1)
    leader.write(10)
    copy = follower.follow(1)
    await until(lambda: copy.high_watermark == 10)
    # The follower led alone for a while, and nobody else heard of it.
    follower.replication.leave(copy)
    copy.lead(2, (2,), (1, 2))
    for _ in range(2):
        follower.write(3)
    source.lead(3, (1,), (1, 2))
    leader.write(7)
    follower.follow(3)
    await until(lambda: copy.log.end == 17)
    await until(lambda: contents(copy) == contents(source))
    assert copy.log.epochs.entries == [(1, 0), (3, 10)]


async def test_an_epoch_that_wrote_nothing_does_not_hold_a_follower_up(
    leader: Leader, follower: Follower
) -> None:
    source = leader.lead(1)
    leader.write(10)
    copy = follower.follow(1)
    await until(lambda: copy.high_watermark == 10)
    follower.replication.leave(copy)
    copy.lead(2, (2,), (1, 2))
    source.lead(3, (1,), (1, 2))
    follower.follow(3)
    leader.write(1)
    await until(lambda: copy.high_watermark == 11)
    assert copy.log.epochs.entries == [(1, 0), (3, 10)]


async def test_a_follower_whose_end_the_leader_no_longer_has_begins_anew(
    leader: Leader, follower: Follower
) -> None:
    source = leader.lead(0, segment_bytes=200)
    copy = follower.follow(0)
    leader.write(5)
    await until(lambda: copy.high_watermark == 5)
    leader.reachable = False
    for _ in range(5):
        leader.write(5)
    source.log.drop_segments(4, 0)
    assert source.log.start == 20
    leader.reachable = True
    await until(lambda: copy.high_watermark == 30)
    assert (copy.log.start, copy.log.end) == (20, 30)
    assert contents(copy) == contents(source)


async def test_a_leaders_log_that_starts_within_a_batch_is_copied(
    leader: Leader, follower: Follower
) -> None:
    source = leader.lead(0)
    for _ in range(4):
        leader.write(5)
    source.log.advance_start(12)
    copy = follower.follow(0)
    await until(lambda: copy.high_watermark == 20)
    assert (copy.log.start, copy.log.segments[0].base) == (12, 10)
    assert contents(copy) == contents(source)


async def test_a_follower_longer_than_a_leader_that_lost_its_log_is_cut(
    leader: Leader, follower: Follower
) -> None:
    leader.lead(5)
    copy = follower.open()
    copy.lead(0, (2,), (1, 2))
    follower.write(9)
    follower.follow(5)
    leader.write(2)
    await until(lambda: copy.high_watermark == 2 or copy.log.end == 2)
    assert contents(copy) == contents(leader.partitions[0])


async def test_a_partition_that_is_left_is_forgotten_and_its_fetcher_ends(
    leader: Leader, follower: Follower
) -> None:
    leader.lead(0)
    copy = follower.follow(0)
    await until(lambda: fetches(leader))
    follower.replication.leave(copy)
    await asyncio.sleep(0.01)
    asked = len(fetches(leader))
    leader.write(5)
    await asyncio.sleep(0.03)
    assert copy.log.end == 0
    assert len(fetches(leader)) <= asked + 1


async def test_a_throttled_partition_that_is_behind_waits_and_others_do_not(
    leader: Leader, tmp_path: Path
) -> None:
    clock = Clock()
    small = {"replica.fetch.max.bytes": "20000"}
    follower = Follower(tmp_path / "follower", leader, clock, **small)
    throttle = follower.broker.throttles.follower
    throttle.choose("t", ["1:2", "0:7"], 2)
    throttle.rate_max = 30_000
    for index in range(2):
        leader.lead(0, index)
        for _ in range(40):
            leader.write(100, index=index)
        follower.follow(0, index)
    await until(lambda: follower.partitions[0].high_watermark == 4000)
    await asyncio.sleep(0.1)
    held = follower.partitions[1].log
    assert 30_000 < held.size < 60_000
    clock.ms += 20_000  # what went by is long past
    await until(lambda: held.size > 60_000)
    clock.ms += 20_000
    await until(lambda: held.end == 4000)
    throttle.rate_max = 0  # who is in sync is never held back
    await until(lambda: follower.partitions[1].high_watermark == 4000)
    leader.write(100, index=1)
    await until(lambda: held.end == 4100)
    await follower.close()


@pytest.mark.parametrize("cut_meanwhile", [False, True])
async def test_a_replica_moves_to_another_directory_while_it_is_copied(
    leader: Leader, follower: Follower, cut_meanwhile: bool
) -> None:
    source = leader.lead(0)
    for _ in range(30):
        leader.write(10)
    copy = follower.follow(0)
    await until(lambda: copy.high_watermark == 300)
    if cut_meanwhile:
        follower.replication.leave(copy)
        copy.lead(1, (2,), (1, 2))
        follower.write(5)
    store = follower.store
    here = store.directory_of(copy.log)
    (other,) = (each for each in store.directories if each is not here)
    move = store.begin_move(copy.log.topic_partition, other)
    while not move.step(0):
        pass
    if cut_meanwhile:  # the copy has what the next leader never knew
        source.lead(2, (1,), (1, 2))
        follower.follow(2)

    def use(_: object, new: Log) -> None:
        copy.use_log(new)

    leader.write(10)
    assert await carry_out(move, follower.workers, lambda: 0, use)
    assert store.directory_of(copy.log) is other
    leader.write(10)
    await until(lambda: copy.high_watermark == 320)
    assert contents(copy) == contents(source)


async def test_more_fetchers_share_the_partitions_when_the_configuration_says_so(
    leader: Leader, follower: Follower
) -> None:
    for index in range(8):
        leader.lead(0, index)
        leader.write(1, index=index)
        follower.follow(0, index)
    await until(lambda: all(each.high_watermark == 1 for each in follower.partitions.values()))
    assert list(leader.purposes) == ["fetcher-0"]
    delta = MetadataDelta(EMPTY)
    delta.replay(ConfigRecord(resource_type=BROKER, name="num.replica.fetchers", value="2"))
    follower.broker.image = delta.apply(1, 0)
    follower.replication.on_image(delta)
    for index in range(8):
        leader.write(1, index=index)
    await until(lambda: all(each.high_watermark == 2 for each in follower.partitions.values()))
    assert sorted(leader.purposes) == ["fetcher-0", "fetcher-1"]


class Clock:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def monotonic(self) -> Millis:
        return Millis(self.ms)

    def now(self) -> Millis:
        return Millis(self.ms)
