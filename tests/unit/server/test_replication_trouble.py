"""Followers in trouble: what they are told, what their disks do, and how they go on."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from penstock.model.errors import ErrorCode
from penstock.platform.disk import File
from penstock.protocol.generated.fetch import FetchRequest, FetchResponse, PartitionData
from penstock.records.batch import HEAD
from penstock.replica.fetching import State
from penstock.storage.log import Log
from penstock.storage.segment import Segment
from tests.unit.server.following import Follower, Leader, until


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Leader]:
    made = Leader(tmp_path / "leader")
    yield made
    await made.close()


@pytest.fixture
async def follower(tmp_path: Path, leader: Leader) -> AsyncIterator[Follower]:
    # Longer than `until` waits: who gets something in time did not wait for the leader's news.
    made = Follower(tmp_path / "follower", leader, **{"replica.fetch.wait.max.ms": "20000"})
    yield made
    await made.close()


def fetches(leader: Leader) -> list[FetchRequest]:
    return [request for request in leader.asked if isinstance(request, FetchRequest)]


async def test_a_batch_that_fails_its_checksum_is_asked_for_again_and_never_stored(
    leader: Leader, follower: Follower
) -> None:
    spoiled = 0

    def spoil(answer: PartitionData) -> None:
        nonlocal spoiled
        if answer.records and spoiled < 3:
            data = bytearray(answer.records)  # type: ignore[arg-type]
            data[-1] ^= 1
            answer.records = bytes(data)
            spoiled += 1

    leader.spoil = spoil
    leader.lead(0)
    leader.write(5)
    copy = follower.follow(0)
    await until(lambda: spoiled == 1)
    assert copy.log.end == 0
    await until(lambda: copy.high_watermark == 5)
    assert spoiled == 3


async def test_a_batch_that_stays_broken_is_told_of_once_and_asked_for_less_and_less(
    leader: Leader, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    def spoil(answer: PartitionData) -> None:
        if isinstance(answer.records, bytes) and answer.records:
            answer.records = answer.records[:-1] + bytes([answer.records[-1] ^ 1])

    leader.spoil = spoil
    leader.lead(0)
    leader.write(5)
    follower.follow(0)
    await until(lambda: len(fetches(leader)) >= 4)
    told = [each for each in caplog.messages if "fails its checksum" in each]
    assert len(told) == 1
    ((_, following),) = follower.replication.lags()
    assert following.state is State.DELAYED


async def test_nothing_is_cut_for_a_batch_that_fails_its_checksum(
    leader: Leader, follower: Follower
) -> None:
    spoiled = 0

    def spoil(answer: PartitionData) -> None:
        nonlocal spoiled
        if isinstance(answer.records, bytes) and answer.records:
            spoiled += 1
            data = bytearray(answer.records)
            HEAD.pack_into(
                data, 0, 0, *HEAD.unpack_from(data)[1:6], 99, *HEAD.unpack(data[:61])[7:]
            )
            answer.records = bytes(data)  # from offset 0 to 99, it says

    leader.lead(0)
    leader.write(5)
    copy = follower.follow(0)
    await until(lambda: copy.high_watermark == 5)
    leader.spoil = spoil
    leader.write(5)
    await until(lambda: spoiled > 1)
    assert (copy.log.start, copy.log.end) == (0, 5)


async def test_a_fault_of_our_own_with_one_partition_leaves_the_others_alone(
    leader: Leader, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(_: Segment, offset: int, now: int) -> None:
        raise AssertionError("a bug")

    for index in range(2):
        leader.lead(1, index)
    copy = follower.open(0)
    copy.lead(0, (2,), (1, 2))
    follower.write(5)
    monkeypatch.setattr(Segment, "truncate", stumble)
    for index in range(2):
        follower.follow(1, index)
    await until(lambda: follower.replication.failed == 1)
    leader.write(1, index=1)
    await until(lambda: follower.partitions[1].high_watermark == 1)


async def test_a_follower_goes_on_when_the_leader_is_back(
    leader: Leader, follower: Follower
) -> None:
    leader.lead(0)
    leader.reachable = False
    copy = follower.follow(0)
    leader.write(5)
    await asyncio.sleep(0.05)
    assert copy.log.end == 0
    leader.reachable = True
    await until(lambda: copy.high_watermark == 5)


async def test_a_leader_that_answers_no_fetch_at_all_is_asked_less_and_less(
    leader: Leader, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = follower.open()
    leader.lead(0)
    leader.write(1)
    with monkeypatch.context() as patched:
        refused = FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        patched.setattr(leader, "_fetch", AsyncMock(return_value=refused))
        follower.follow(0)
        await asyncio.sleep(0.1)
        assert 2 <= len(fetches(leader)) <= 10
    await until(lambda: copy.high_watermark == 1)


async def test_a_fenced_follower_waits_for_the_next_epoch(
    leader: Leader, follower: Follower
) -> None:
    leader.lead(4)
    leader.write(1)
    copy = follower.follow(3)
    await until(lambda: follower.replication.failed == 1)
    asked = len(fetches(leader))
    await asyncio.sleep(0.06)
    assert len(fetches(leader)) <= asked + 1
    follower.follow(4)
    await until(lambda: copy.high_watermark == 1)
    assert follower.replication.failed == 0


async def test_a_follower_that_is_ahead_of_the_leaders_metadata_asks_again(
    leader: Leader, follower: Follower
) -> None:
    source = leader.lead(3)
    copy = follower.follow(4)
    await until(lambda: len(fetches(leader)) >= 2)
    source.lead(4, (1,), (1, 2))
    leader.write(1)
    await until(lambda: copy.high_watermark == 1)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
    ],
)
async def test_one_partition_in_trouble_waits_and_the_others_go_on(
    leader: Leader, follower: Follower, error: ErrorCode
) -> None:
    troubled = True

    def spoil(answer: PartitionData) -> None:
        if answer.partition_index == 1 and troubled:
            answer.error_code = error
            answer.records = b""

    leader.spoil = spoil
    for index in range(2):
        leader.lead(0, index)
        leader.write(3, index=index)
        follower.follow(0, index)
    await until(lambda: follower.partitions[0].high_watermark == 3)
    assert follower.partitions[1].log.end == 0
    states = {each.index: following.state for each, following in follower.replication.lags()}
    assert states[0] is State.FETCHING
    troubled = False
    await until(lambda: follower.partitions[1].high_watermark == 3)


async def test_a_follower_claims_no_more_than_is_as_durable_as_the_topic_asks(
    leader: Leader, follower: Follower
) -> None:
    leader.lead(0)
    copy = follower.open(flush_messages=1)
    claims: list[tuple[int, int]] = []

    def note(request: FetchRequest) -> None:
        claims.extend(
            (item.fetch_offset, copy.log.recovery_point)
            for topic in request.topics
            for item in topic.partitions
        )

    leader.on_fetch = note
    follower.follow(0)
    for number in range(1, 11):
        leader.write(3)
        await until(lambda: claims and claims[-1][0] == 3 * number)  # noqa: B023
    assert all(offset <= durable for offset, durable in claims)


async def test_what_a_crash_left_unsynced_is_synced_before_it_is_claimed(
    leader: Leader, follower: Follower
) -> None:
    source = leader.lead(0)
    leader.write(5)
    copy = follower.open(flush_messages=1)
    copy.log.append_batches(source.log.read_bytes(0, 10_000), 0)
    assert copy.log.recovery_point == 0
    claims: list[tuple[int, int]] = []

    def note(request: FetchRequest) -> None:
        (item,) = request.topics[0].partitions if request.topics else [None]
        if item is not None:
            claims.append((item.fetch_offset, copy.log.recovery_point))

    leader.on_fetch = note
    follower.follow(0)
    await until(lambda: claims)
    assert claims[0] == (5, 5)


async def test_a_follower_whose_disk_does_not_sync_claims_nothing(
    leader: Leader, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Log, *, closing: bool = False) -> int:
        raise OSError(errno.EIO, "a broken disk")

    leader.lead(0)
    leader.write(5)
    copy = follower.open(flush_messages=1)
    with monkeypatch.context() as patched:
        patched.setattr(Log, "sync", refuse)
        follower.follow(0)
        await until(lambda: follower.replication.failed == 1)
        asked = fetches(leader)
    assert copy.log.end == 5
    assert not follower.store.directory_of(copy.log).online
    assert [each.topics[0].partitions[0].fetch_offset for each in asked if each.topics] == [0]


async def test_a_newcomer_does_not_wait_for_the_news_of_others(
    leader: Leader, follower: Follower
) -> None:
    leader.wait_seconds_max = 100
    for index in range(2):
        leader.lead(0, index)
    follower.follow(0, 0)
    await until(lambda: len(fetches(leader)) == 2)  # the second one waits for news
    leader.write(1, index=1)
    copy = follower.follow(0, 1)
    await until(lambda: copy.high_watermark == 1)


async def test_who_is_in_trouble_tries_again_in_time_though_the_others_are_idle(
    leader: Leader, follower: Follower
) -> None:
    leader.wait_seconds_max = 100
    troubled = 2

    def spoil(answer: PartitionData) -> None:
        nonlocal troubled
        if answer.partition_index == 1 and troubled:
            troubled -= 1
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            answer.records = b""

    leader.spoil = spoil
    for index in range(2):
        leader.lead(0, index)
        leader.write(1, index=index)
        follower.follow(0, index)
    await until(lambda: follower.partitions[1].high_watermark == 1)
    assert not troubled


async def test_a_full_disk_makes_a_follower_wait_until_there_is_room(
    leader: Leader, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: File, data: object) -> int:
        if "follower" in file.path:
            raise OSError(errno.ENOSPC, "no room")
        return append(file, data)  # type: ignore[arg-type]

    append = File.append
    leader.lead(0)
    leader.write(5)
    with monkeypatch.context() as patched:
        patched.setattr(File, "append", refuse)
        copy = follower.follow(0)
        await until(lambda: len(fetches(leader)) > 2)
        assert copy.log.end == 0
        assert not copy.offline
    await until(lambda: copy.high_watermark == 5)


async def test_a_partition_that_leaves_with_its_full_directory_does_not_hold_up_the_others(
    leader: Leader, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where this node leads as well, and others can take over, a full directory goes offline."""

    def refuse(file: File, data: object) -> int:
        if "follower" in file.path and "/t-0/" in file.path:
            follower.replication.leave(follower.partitions[0])
            raise OSError(errno.ENOSPC, "no room")
        return append(file, data)  # type: ignore[arg-type]

    append = File.append
    monkeypatch.setattr(File, "append", refuse)
    for index in range(2):
        leader.lead(0, index)
        follower.follow(0, index)
    leader.write(5, index=0)
    await until(lambda: len(list(follower.replication.lags())) == 1)
    leader.write(5, index=1)
    await until(lambda: follower.partitions[1].high_watermark == 5)


async def test_a_log_that_cannot_be_cut_goes_offline(
    leader: Leader, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Segment, offset: int, now: int) -> None:
        raise OSError(errno.EIO, "a broken disk")

    leader.lead(1)
    copy = follower.open()
    copy.lead(0, (2,), (1, 2))
    follower.write(5)
    monkeypatch.setattr(Segment, "truncate", refuse)
    follower.follow(1)
    await until(lambda: not follower.store.directory_of(copy.log).online)
    await until(lambda: follower.replication.failed == 1)
