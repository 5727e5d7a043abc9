"""A partition with followers: what is committed, who is told when, and what survives elections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.metadata.cluster import BrokerImage
from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId
from penstock.replica import leading
from penstock.replica.in_sync import Decided, Peers, Proposal
from penstock.replica.partition import BYTES_UNCOUNTED, Appended, Partition
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore
from tests.unit.replica.test_partition import Syncs, append
from tests.unit.server.asking import batch

LEADER, ALICE, BOB = 1, 2, 3
ALL = (LEADER, ALICE, BOB)
LAG = 1000


class Waiting:
    """Somebody at the partition who writes down what it hears."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.marks = 0

    def progress(self, size: int) -> None:
        self.told.append(size)

    def marks_moved(self) -> None:
        self.marks += 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    made.open()
    yield made
    made.close()


@pytest.fixture
def syncs() -> Syncs:
    return Syncs()


def partition_of(store: LogStore, syncs: Syncs, **config: object) -> Partition:
    log = store.create("t", 0, b"t" * 16, LogConfig(**config))  # type: ignore[arg-type]
    brokers = {each: BrokerImage(each, b"i" * 16, 10 * each, (), {}, fenced=False) for each in ALL}
    return Partition(NodeId(LEADER), log, 0, syncs, Peers(brokers, LAG))


def led(
    store: LogStore, syncs: Syncs, isr: tuple[int, ...] = ALL, epoch: int = 0, **config: object
) -> Partition:
    partition = partition_of(store, syncs, **config)
    partition.lead(epoch, isr, ALL)
    return partition


def fetch(partition: Partition, node_id: int, offset: int, now: int = 0, start: int = 0) -> object:
    return leading.fetched(partition, node_id, 10 * node_id, offset, start, now)


async def commit_of(partition: Partition, end: int) -> asyncio.Future[ErrorCode]:
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    partition.await_commit(end, future)
    return future


async def test_a_batch_is_committed_when_all_in_sync_have_it(store: LogStore, syncs: Syncs) -> None:
    partition = led(store, syncs)
    append(partition, batch(3))
    done = await commit_of(partition, 3)
    fetch(partition, ALICE, 3)
    assert partition.high_watermark == 0 and not done.done()
    fetch(partition, BOB, 2)
    assert partition.high_watermark == 2 and not done.done()
    fetch(partition, BOB, 3)
    assert partition.high_watermark == 3 and done.result() is ErrorCode.NONE


def test_the_watermark_never_goes_back_even_if_a_follower_does(
    store: LogStore, syncs: Syncs
) -> None:
    partition = led(store, syncs)
    append(partition, batch(3))
    for node_id in (ALICE, BOB):
        fetch(partition, node_id, 3)
    fetch(partition, BOB, 1)
    assert partition.high_watermark == 3


def test_consumers_hear_of_commits_and_followers_of_appends(store: LogStore, syncs: Syncs) -> None:
    partition = led(store, syncs)
    consumer, follower = Waiting(), Waiting()
    partition.audience.park(consumer)
    partition.audience.park_follower(ALICE, follower)
    data = batch(3)
    append(partition, data)
    assert (consumer.told, follower.told, follower.marks) == ([], [len(data)], 0)
    fetch(partition, ALICE, 3)
    fetch(partition, BOB, 3)
    assert (consumer.told, follower.told, follower.marks) == ([BYTES_UNCOUNTED], [len(data)], 1)
    partition.audience.unpark(consumer)
    partition.audience.unpark_follower(ALICE, follower)
    append(partition, data)
    assert len(follower.told) == 1


def test_a_shrunken_set_commits_what_the_rest_has(store: LogStore, syncs: Syncs) -> None:
    partition = led(store, syncs)
    append(partition, batch(3))
    fetch(partition, ALICE, 3)
    proposal = leading.review(partition, LAG + 1)
    assert isinstance(proposal, Proposal) and proposal.isr == ((LEADER, 10), (ALICE, 20))
    assert partition.high_watermark == 0
    assert not leading.answered(partition, proposal, Decided(0, 1, (LEADER, ALICE)), LAG + 1)
    assert (partition.high_watermark, partition.isr) == (3, (LEADER, ALICE))


async def test_nothing_is_committed_by_fewer_than_the_topic_wants(
    store: LogStore, syncs: Syncs
) -> None:
    partition = led(store, syncs, min_insync_replicas=2)
    append(partition, batch(3))
    done = await commit_of(partition, 3)
    partition.lead(0, (LEADER,), ALL, partition_epoch=1, now=0)
    assert partition.under_min and partition.high_watermark == 0
    proposal = fetch(partition, ALICE, 3)
    assert isinstance(proposal, Proposal) and partition.high_watermark == 0
    leading.answered(partition, proposal, Decided(0, 2, (LEADER, ALICE)), 0)
    assert done.result() is ErrorCode.NONE


def test_a_topic_that_wants_less_commits_at_once(store: LogStore, syncs: Syncs) -> None:
    partition = led(store, syncs, (LEADER,), min_insync_replicas=2)
    append(partition, batch(3))
    assert partition.high_watermark == 0
    partition.reconfigure(LogConfig(min_insync_replicas=1))
    assert partition.high_watermark == 3


def test_metadata_that_lags_behind_the_answer_is_passed_over(store: LogStore, syncs: Syncs) -> None:
    partition = led(store, syncs, (LEADER, ALICE))
    proposal = fetch(partition, BOB, 0)
    assert isinstance(proposal, Proposal)
    leading.answered(partition, proposal, Decided(0, 1, ALL), 0)
    partition.lead(0, (LEADER, ALICE), ALL, partition_epoch=0)
    assert list(partition.isr) == [*ALL]
    partition.lead(0, (LEADER,), ALL, partition_epoch=2)
    assert list(partition.isr) == [LEADER]


def test_metadata_said_twice_does_not_lose_a_proposal(store: LogStore, syncs: Syncs) -> None:
    partition = led(store, syncs, (LEADER, ALICE))
    proposal = fetch(partition, BOB, 0)
    assert isinstance(proposal, Proposal)
    partition.lead(0, (LEADER, ALICE), ALL, partition_epoch=0)
    assert leading.is_proposed(partition, proposal)


def test_in_a_new_epoch_nothing_is_known_of_followers(store: LogStore, syncs: Syncs) -> None:
    partition = led(store, syncs)
    for node_id in (ALICE, BOB):
        fetch(partition, node_id, 0)
    partition.lead(1, ALL, ALL, partition_epoch=1)
    append(partition, batch(3))
    fetch(partition, ALICE, 3)
    assert partition.high_watermark == 0


async def test_who_waits_at_a_leader_that_steps_down_looks_elsewhere(
    store: LogStore, syncs: Syncs
) -> None:
    partition = led(store, syncs)
    append(partition, batch(3))
    done = await commit_of(partition, 3)
    proposal = leading.review(partition, LAG + 1)
    assert proposal is not None
    partition.follow(1, ALICE, ALL, ALL)
    assert done.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not leading.is_proposed(partition, proposal)
    assert not leading.answered(partition, proposal, Decided(0, 1, (LEADER,)), 0)
    assert fetch(partition, BOB, 3) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.isr == ALL and partition.high_watermark == 0


async def test_a_sync_that_ends_after_a_truncation_commits_nothing(
    store: LogStore, syncs: Syncs
) -> None:
    partition = led(store, syncs, (LEADER,), flush_messages=1)
    append(partition, batch(3))
    partition.follow(1, ALICE, ALL, ALL)
    partition.truncate_to(0, 0)
    partition.lead(2, (LEADER,), ALL, partition_epoch=2)
    append(partition, batch(5))
    syncs.waiting[0][1].set_result(None)  # of the three that were cut off
    await asyncio.sleep(0)
    assert (partition.synced, partition.high_watermark) == (0, 0)
    syncs.waiting[1][1].set_result(None)
    await asyncio.sleep(0)
    assert partition.high_watermark == 5


def test_a_follower_commits_only_what_its_leader_says(store: LogStore, syncs: Syncs) -> None:
    partition = partition_of(store, syncs)
    partition.follow(0, ALICE, ALL, ALL)
    partition.append_fetched(batch(3), 0)
    assert partition.high_watermark == 0
    partition.take_marks(9, 0)
    assert partition.high_watermark == 3
    partition.truncate_to(1, 0)
    partition.lead(1, ALL, ALL)
    assert partition.high_watermark <= partition.log.end


async def test_deleting_waits_for_every_live_replica(store: LogStore, syncs: Syncs) -> None:
    partition = led(store, syncs)
    append(partition, batch(3))
    for node_id in (ALICE, BOB):
        fetch(partition, node_id, 3)
    follower = Waiting()
    partition.audience.park_follower(ALICE, follower)
    partition.delete_to(2)
    assert follower.marks == 1 and leading.low_watermark(partition) == 0
    done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    partition.waits.starts.append((2, done))
    fetch(partition, ALICE, 3, start=2)
    assert not done.done()
    fetch(partition, BOB, 3, start=2)
    assert done.result() is ErrorCode.NONE


@pytest.mark.parametrize("acks_sync", [True, False])
async def test_what_is_synced_here_is_not_what_is_committed(
    store: LogStore, syncs: Syncs, acks_sync: bool
) -> None:
    partition = led(store, syncs, flush_messages=1 if acks_sync else 1 << 62)
    appended = append(partition, batch(3))
    assert isinstance(appended, Appended)
    assert partition.synced == (0 if acks_sync else 3)
    if acks_sync:
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        partition.waits.syncs.append((3, done))
        syncs.waiting[0][1].set_result(None)
        await asyncio.sleep(0)
        assert done.result() is ErrorCode.NONE and partition.synced == 3
    assert partition.high_watermark == 0
    for node_id in (ALICE, BOB):
        fetch(partition, node_id, 3)
    assert partition.high_watermark == 3


async def test_who_waits_for_a_sync_is_told_when_the_log_has_moved_meanwhile(
    store: LogStore, syncs: Syncs
) -> None:
    partition = led(store, syncs, flush_messages=1)
    append(partition, batch(3))
    done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    partition.waits.syncs.append((3, done))
    partition.use_log(partition.log)  # a copy that is durable
    assert done.result() is ErrorCode.NONE and partition.high_watermark == 0


async def test_followers_that_are_ahead_of_the_leaders_own_disk_wait_for_it(
    store: LogStore, syncs: Syncs
) -> None:
    partition = led(store, syncs, flush_messages=1)
    append(partition, batch(3))
    for node_id in (ALICE, BOB):
        fetch(partition, node_id, 3)
    assert partition.high_watermark == 0
    syncs.waiting[0][1].set_result(None)
    await asyncio.sleep(0)
    assert partition.high_watermark == 3


def test_a_partition_that_gains_a_replica_waits_for_it_once_it_is_in_sync(
    store: LogStore, syncs: Syncs
) -> None:
    partition = partition_of(store, syncs)
    partition.lead(0, (LEADER,), (LEADER,))
    append(partition, batch(3))
    assert partition.high_watermark == 3 and partition.in_sync is None
    partition.lead(0, (LEADER,), (LEADER, BOB), partition_epoch=1)
    append(partition, batch(3))
    assert partition.high_watermark == 6
    proposal = fetch(partition, BOB, 6)
    assert isinstance(proposal, Proposal)
    append(partition, batch(3))
    assert partition.high_watermark == 6
