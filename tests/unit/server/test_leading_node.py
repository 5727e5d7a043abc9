"""A whole node that leads: who joins it, where consumers are sent, what waits for followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.metadata.cluster import Endpoint
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.replica.partition import Partition
from tests.unit.server.asking import batch
from tests.unit.server.leading_scene import (
    EPOCH,
    FETCH,
    FOLLOWER,
    LONG_MS,
    OWN,
    SOON,
    VERSION,
    Scene,
    leading_node,
)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with leading_node(tmp_path) as made:
        yield made


# -- joining --------------------------------------------------------------------------------------


async def joined(scene: Scene, partition: Partition) -> None:
    async with asyncio.timeout(SOON):
        while FOLLOWER not in partition.isr:
            await asyncio.sleep(0.002)


async def test_a_follower_that_caught_up_joins(scene: Scene) -> None:
    partition = scene.lead((OWN,))
    await scene.producer.produce("t", batch(3))
    await scene.fetch(0)
    assert not scene.decider.asked
    await scene.fetch(3)
    await joined(scene, partition)
    (asked,) = scene.decider.asked
    (proposal,) = asked.topics[0].partitions
    assert (asked.broker_id, asked.broker_epoch) == (OWN, scene.broker.epoch)
    assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 10)
    members = [(each.broker_id, each.broker_epoch) for each in proposal.new_isr_with_epochs]
    assert members == [(OWN, scene.broker.epoch), (FOLLOWER, EPOCH)]


async def test_a_proposal_that_nobody_heard_is_made_again(scene: Scene) -> None:
    partition = scene.lead((OWN,))
    scene.decider.errors = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER]
    await scene.fetch(0)
    await joined(scene, partition)
    assert len(scene.decider.asked) == 3


async def test_many_proposals_travel_together(scene: Scene) -> None:
    partitions = [scene.lead((OWN,), index) for index in range(3)]
    await scene.fetch(0, 0, 0)
    for partition in partitions:
        await joined(scene, partition)
    assert len(scene.decider.asked) == 1


@pytest.mark.parametrize("waits", [True, False])
async def test_a_broker_that_is_unfenced_joins_though_its_partitions_are_quiet(
    scene: Scene, waits: bool
) -> None:
    scene.know(FOLLOWER, fenced=True)
    partition = scene.lead((OWN,))
    opened = await scene.asker.ask(scene.request(0, session_epoch=0), VERSION)
    again = scene.request(
        session_id=opened.session_id, session_epoch=1, max_wait_ms=LONG_MS if waits else 0
    )
    scene.asker.send(again, VERSION)
    if waits:
        await scene.parked()
    else:
        await scene.asker.receive(FETCH, VERSION)
    scene.know(FOLLOWER)
    scene.broker.isr_changes._review()
    if not waits:
        again = scene.request(session_id=opened.session_id, session_epoch=2)
        await scene.asker.ask(again, VERSION)
    await joined(scene, partition)


async def test_a_broker_that_does_not_ask_any_more_does_not_join(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    await scene.fetch(0, session_epoch=0)
    # The controller takes it out: its disk failed, though it is up.
    partition.lead(1, (OWN,), (OWN, FOLLOWER), partition_epoch=11)
    scene.broker.isr_changes._review()
    await asyncio.sleep(0.1)
    assert not scene.decider.asked and partition.isr == (OWN,)


async def test_a_leader_elected_unclean_says_that_it_has_recovered(scene: Scene) -> None:
    partition = scene.partition()
    partition.lead(1, (OWN,), (OWN, FOLLOWER), partition_epoch=10, recovering=True)
    scene.broker.isr_changes._review()
    async with asyncio.timeout(SOON):
        while not scene.decider.asked:
            await asyncio.sleep(0.002)
    (asked,) = scene.decider.asked
    (proposal,) = asked.topics[0].partitions
    assert (proposal.leader_recovery_state, len(proposal.new_isr_with_epochs)) == (0, 1)


async def test_a_follower_that_falls_silent_leaves(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    await scene.fetch(0)
    producing = asyncio.create_task(scene.producer.produce("t", batch(3)))
    await asyncio.sleep(0.05)
    assert partition.in_sync is not None and not producing.done()
    partition.in_sync.followers[FOLLOWER].caught_up_at -= 31_000
    scene.broker.isr_changes._review()
    assert (await producing).base_offset == 0
    assert partition.isr == (OWN,)


# -- other requests -------------------------------------------------------------------------------


async def end_of(scene: Scene, replica_id: int = -1, version: int = 8) -> tuple[int, int]:
    request = ListOffsetsRequest(
        replica_id=replica_id,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ],
    )
    response = await scene.producer.ask(request, version)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset


async def test_a_new_leader_does_not_tell_an_end_that_may_be_too_low(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    assert await end_of(scene) == (0, 0)
    scene.lead((OWN, FOLLOWER), epoch=2)
    assert await end_of(scene) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert await end_of(scene, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert await end_of(scene, FOLLOWER) == (0, 3)
    await scene.fetch(3, leader_epoch=2)
    assert await end_of(scene) == (0, 3)
    partition.follow(3, FOLLOWER, (OWN, FOLLOWER), (OWN, FOLLOWER))
    assert await end_of(scene) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert await end_of(scene, -2) == (0, 3)


@pytest.mark.parametrize("heard", [True, False])
async def test_deleting_records_waits_for_the_follower(scene: Scene, heard: bool) -> None:
    scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    await scene.fetch(3)
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
            )
        ],
        timeout_ms=LONG_MS if heard else 100,
    )
    deleting = asyncio.create_task(scene.producer.ask(request, 2))
    await asyncio.sleep(0.05)
    assert not deleting.done()
    if heard:
        await scene.fetch(3, start=2)
    answer = (await deleting).topics[0].partitions[0]
    expected = (0, 2) if heard else (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert (answer.error_code, answer.low_watermark) == expected


# -- the closest replica --------------------------------------------------------------------------


@pytest.fixture
async def racks(scene: Scene) -> Scene:
    scene.broker.rack_aware = True
    listener = scene.broker.config.inter_broker_listener_name
    own = scene.broker.image.cluster.brokers[OWN]
    endpoint = Endpoint(listener, "localhost", 9, 0)
    scene.know(FOLLOWER, rack="near")
    brokers = dict(scene.broker.image.cluster.brokers)
    brokers[OWN] = own._replace(rack="far")
    brokers[FOLLOWER] = brokers[FOLLOWER]._replace(endpoints=(endpoint,))
    scene.broker.image.cluster.brokers = brokers
    return scene


@pytest.mark.parametrize(
    ("rack", "offset", "isr", "expected"),
    [
        ("near", 3, (OWN, FOLLOWER), FOLLOWER),
        ("near", 0, (OWN, FOLLOWER), FOLLOWER),
        ("near", 3, (OWN,), -1),  # not in sync: it would fall behind, and the consumer with it
        ("far", 3, (OWN, FOLLOWER), -1),
        ("elsewhere", 3, (OWN, FOLLOWER), -1),
        ("", 3, (OWN, FOLLOWER), -1),
    ],
)
async def test_a_consumer_is_sent_to_a_replica_in_its_rack(
    racks: Scene, rack: str, offset: int, isr: tuple[int, ...], expected: int
) -> None:
    partition = racks.lead((OWN, FOLLOWER))
    await racks.producer.produce("t", batch(3), acks=1)
    await racks.fetch(3)
    partition.lead(1, isr, (OWN, FOLLOWER), partition_epoch=11)
    answer = await racks.fetch(offset, replica_id=-1, epoch=-1, rack_id=rack)
    assert (answer.error_code, answer.preferred_read_replica) == (0, expected)
    assert bool(answer.records) == (expected == -1 and offset < 3)


async def test_a_follower_serves_consumers_what_it_knows_to_be_committed(scene: Scene) -> None:
    partition = scene.lead((OWN, FOLLOWER))
    await scene.producer.produce("t", batch(3), acks=1)
    partition.follow(2, FOLLOWER, (OWN, FOLLOWER), (OWN, FOLLOWER))
    options = {"replica_id": -1, "epoch": -1, "leader_epoch": 2}
    answer = await scene.fetch(0, **options)
    assert (answer.error_code, answer.records) == (0, b"")
    partition.take_marks(3, 0)
    answer = await scene.fetch(0, **options)
    assert answer.records and answer.high_watermark == 3
    assert (await scene.fetch(4, **options)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    fenced = await scene.fetch(0, **{**options, "leader_epoch": 1})
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    refused = await scene.fetch(0, leader_epoch=2)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# -- throttles ------------------------------------------------------------------------------------


async def test_who_catches_up_over_the_throttle_gets_nothing_for_now(scene: Scene) -> None:
    scene.lead((OWN,))
    await scene.producer.produce("t", batch(300), acks=1)
    throttle = scene.broker.throttles.leader
    throttle.choose("t", [f"0:{OWN}"], OWN)
    throttle.rate_max = 10
    assert (await scene.fetch(0)).records
    held = await scene.fetch(0)
    assert (held.error_code, held.records) == (0, b"")
    scene.partition().lead(1, (OWN, FOLLOWER), (OWN, FOLLOWER), partition_epoch=11)
    assert (await scene.fetch(0)).records  # never those who are in sync
