"""Followers at a whole node: what they may read, what their fetches say, when they hear more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.replica.in_sync import UNKNOWN
from penstock.replica.partition import Partition
from tests.unit.server.asking import asking, batch
from tests.unit.server.leading_scene import (
    EPOCH,
    FETCH,
    FOLLOWER,
    LONG_MS,
    OWN,
    SOON,
    STRANGER,
    VERSION,
    Scene,
    leading_node,
)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with leading_node(tmp_path) as made:
        yield made


# -- what a follower reads ------------------------------------------------------------------------


async def test_a_follower_reads_what_is_not_committed_yet(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    answer = await scene.fetch(0)
    assert answer.records and (answer.high_watermark, partition.high_watermark) == (0, 0)


async def test_a_fetch_commits_what_it_says_the_follower_has(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    await scene.fetch(0)
    answer = await scene.fetch(3)
    # It hears at once what its own fetch has committed.
    assert (answer.error_code, answer.high_watermark) == (0, 3)


@pytest.mark.parametrize("acks", [-1, 1])
async def test_only_acks_of_all_wait_for_the_follower(scene: Scene, acks: int) -> None:
    scene.lead((OWN, FOLLOWER))
    producing = asyncio.create_task(scene.producer.produce("t", batch(3), acks=acks))
    done, _ = await asyncio.wait([producing], timeout=0.2)
    assert bool(done) == (acks == 1)
    await scene.fetch(3)
    assert (await producing).base_offset == 0


async def test_a_leader_that_goes_tells_who_waits_for_it(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    producing = asyncio.create_task(scene.producer.produce("t", batch(3), version=10))
    await asyncio.sleep(0.1)
    partition.follow(2, FOLLOWER, (OWN, FOLLOWER), (OWN, FOLLOWER))
    answer = await producing
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_too_few_in_sync_refuse_before_and_hold_back_after_the_append(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    partition.reconfigure(partition.log.config._replace(min_insync_replicas=2))
    producing = asyncio.create_task(scene.producer.produce("t", batch(3)))
    await asyncio.sleep(0.05)
    partition.lead(1, (OWN,), (OWN, FOLLOWER), partition_epoch=11)
    async with asking(scene.producer._writer.get_extra_info("peername")[1]) as other:
        refused = await other.produce("t", batch(1))
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await other.produce("t", batch(1), acks=1)).base_offset == 3
    assert not producing.done() and partition.high_watermark == 0
    await scene.fetch(4)  # it joins again, and all is well
    assert (await producing).base_offset == 0


@pytest.mark.parametrize(
    ("offset", "options", "error"),
    [
        (4, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, {"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        (0, {"leader_epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (0, {"replica_id": STRANGER}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (0, {"replica_id": STRANGER, "leader_epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, {"epoch": EPOCH - 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, {"epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_a_fetch_that_cannot_be_right_counts_for_nothing(
    scene: Scene, offset: int, options: dict[str, Any], error: ErrorCode
) -> None:
    partition = scene.lead((OWN,))
    await scene.producer.produce("t", batch(3), acks=1)
    answer = await scene.fetch(offset, **options)
    assert (answer.error_code, answer.records) == (error, b"")
    assert partition.in_sync is not None
    assert partition.in_sync.followers[FOLLOWER].end == UNKNOWN
    assert not scene.decider.asked


# -- when it hears more ---------------------------------------------------------------------------


async def test_a_follower_waits_for_the_end_of_the_log_not_for_commits(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    scene.asker.send(scene.request(0, max_wait_ms=LONG_MS), VERSION)
    await scene.parked()
    await scene.producer.produce("t", batch(3), acks=1)
    async with asyncio.timeout(SOON):
        response = await scene.asker.receive(FETCH, VERSION)
    assert response.responses[0].partitions[0].records


async def test_a_consumer_waits_for_commits(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    request = scene.request(0, replica_id=-1, epoch=-1, max_wait_ms=LONG_MS)
    async with asking(scene.producer._writer.get_extra_info("peername")[1]) as consumer:
        consumer.send(request, VERSION)
        await scene.parked()
        await scene.producer.produce("t", batch(3), acks=1)
        await asyncio.sleep(0.05)
        assert scene.broker.parked_fetches == 1
        await scene.fetch(3)
        async with asyncio.timeout(SOON):
            response = await consumer.receive(FETCH, VERSION)
    assert response.responses[0].partitions[0].high_watermark == 3


async def test_a_follower_hears_soon_that_the_watermark_moved(scene: Scene) -> None:
    scene.know(3)
    partition = scene.partition()
    everybody = (OWN, FOLLOWER, 3)
    partition.lead(1, everybody, everybody, partition_epoch=10)
    await scene.producer.produce("t", batch(3), acks=1)
    opened = await scene.asker.ask(scene.request(3, session_epoch=0), VERSION)
    request = scene.request(session_id=opened.session_id, session_epoch=1, max_wait_ms=LONG_MS)
    scene.asker.send(request, VERSION)
    await scene.parked()
    async with asking(scene.producer._writer.get_extra_info("peername")[1]) as other:
        await other.ask(scene.request(3, replica_id=3), VERSION)
    async with asyncio.timeout(SOON):
        response = await scene.asker.receive(FETCH, VERSION)
    assert response.responses[0].partitions[0].high_watermark == 3


async def test_a_new_epoch_ends_the_wait_in_the_old_one(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    scene.asker.send(scene.request(0, max_wait_ms=LONG_MS), VERSION)
    await scene.parked()
    scene.lead((OWN, FOLLOWER), epoch=2)
    async with asyncio.timeout(SOON):
        response = await scene.asker.receive(FETCH, VERSION)
    assert response.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_follower_that_hears_of_a_leader_first_waits_for_it(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    scene.asker.send(scene.request(0, leader_epoch=2, max_wait_ms=LONG_MS), VERSION)
    await scene.parked()
    scene.lead((OWN, FOLLOWER), epoch=2)
    async with asyncio.timeout(SOON):
        response = await scene.asker.receive(FETCH, VERSION)
    answer = response.responses[0].partitions[0]
    assert not answer.error_code and answer.records


async def test_how_far_an_early_follower_is_counts_as_soon_as_it_is_right(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    scene.asker.send(scene.request(3, leader_epoch=2, max_wait_ms=LONG_MS), VERSION)
    await scene.parked()
    scene.lead((OWN, FOLLOWER), epoch=2)
    async with asyncio.timeout(SOON):
        while partition.high_watermark != 3:
            await asyncio.sleep(0.002)


async def test_a_follower_that_is_early_does_not_hold_up_the_others(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    scene.lead((OWN, FOLLOWER), 1)
    opened = await scene.asker.ask(scene.request(0, 0, session_epoch=0), VERSION)
    request = scene.request(
        0, session_id=opened.session_id, session_epoch=1, leader_epoch=2, max_wait_ms=LONG_MS
    )
    scene.asker.send(request, VERSION)
    await scene.parked()
    await scene.producer.produce("t", batch(3), index=1, acks=1)
    async with asyncio.timeout(SOON):
        response = await scene.asker.receive(FETCH, VERSION)
    assert [each.partition_index for each in response.responses[0].partitions] == [1]
    assert not response.responses[0].partitions[0].error_code


async def test_a_follower_that_is_early_for_too_long_is_told(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    answer = await scene.fetch(0, leader_epoch=2, max_wait_ms=60)
    assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_quiet_follower_hears_what_retention_removed(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    opened = await scene.asker.ask(scene.request(3, session_epoch=0), VERSION)
    request = scene.request(session_id=opened.session_id, session_epoch=1, max_wait_ms=LONG_MS)
    scene.asker.send(request, VERSION)
    await scene.parked()
    partition.log.advance_start(2)
    scene.broker.isr_changes._review()
    async with asyncio.timeout(SOON):
        response = await scene.asker.receive(FETCH, VERSION)
    assert response.responses[0].partitions[0].log_start_offset == 2


# -- sessions -------------------------------------------------------------------------------------


async def test_a_sessions_quiet_partitions_are_not_looked_at_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(3):
        scene.lead((OWN, FOLLOWER), index)
    opened = await scene.asker.ask(scene.request(0, 0, 0, session_epoch=0), VERSION)
    read: list[int] = []
    original = Partition.read

    def reading(partition: Partition, *rest: Any) -> Any:
        read.append(partition.index)
        return original(partition, *rest)

    monkeypatch.setattr(Partition, "read", reading)
    again = scene.request(session_id=opened.session_id, session_epoch=1)
    assert not (await scene.asker.ask(again, VERSION)).responses
    await scene.producer.produce("t", batch(3), index=2, acks=1)
    again = scene.request(session_id=opened.session_id, session_epoch=2)
    response = await scene.asker.ask(again, VERSION)
    assert [part.partition_index for part in response.responses[0].partitions] == [2]
    assert read == [2]


async def test_what_is_not_taken_is_sent_again(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    opened = await scene.asker.ask(scene.request(0, session_epoch=0), VERSION)
    again = scene.request(session_id=opened.session_id, session_epoch=1)
    response = await scene.asker.ask(again, VERSION)
    first, second = (each.responses[0].partitions[0].records for each in (opened, response))
    assert bytes(first) == bytes(second) != b""


async def test_nobody_else_goes_on_with_a_followers_session(scene: Scene) -> None:
    scene.lead((OWN, FOLLOWER))
    opened = await scene.asker.ask(scene.request(0, session_epoch=0), VERSION)
    stolen = scene.request(replica_id=-1, session_id=opened.session_id, session_epoch=1)
    response = await scene.asker.ask(stolen, VERSION)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_quiet_follower_was_abreast_until_somebody_wrote(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    opened = await scene.asker.ask(scene.request(0, session_epoch=0), VERSION)
    again = scene.request(session_id=opened.session_id, session_epoch=1)
    await scene.asker.ask(again, VERSION)
    before = scene.broker.clock.monotonic()
    assert partition.in_sync is not None
    follower = partition.in_sync.followers[FOLLOWER]
    follower.caught_up_at = follower.fetched_at = -100_000
    await scene.producer.produce("t", batch(3), acks=1)
    assert before - 1000 < follower.caught_up_at <= before


async def test_a_session_that_ends_leaves_nothing_behind(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    opened = await scene.asker.ask(scene.request(0, session_epoch=0), VERSION)
    assert len(partition.audience.followers) == 1
    closing = scene.request(session_id=opened.session_id, session_epoch=-1)
    await scene.asker.ask(closing, VERSION)
    await scene.fetch(0)  # without a session
    assert not partition.audience.followers and len(scene.broker.fetch_sessions) == 0
