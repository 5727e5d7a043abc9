"""Followers at a whole node: what they may read, what their fetches say, and when they hear more.

The follower is this test: a broker that the node believes in, and that says how far it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.metadata.cluster import BrokerImage, ClusterImage, Endpoint
from penstock.metadata.image import PARTS, MetadataImage
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from penstock.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.replica.in_sync import UNKNOWN
from penstock.replica.partition import Partition
from penstock.server.broker import Broker
from tests.unit.server.asking import Asker, asking, batch, port_of, running_node

FETCH, PRODUCE = 1, 0
VERSION = 18
OWN, FOLLOWER, STRANGER = 1, 2, 9
EPOCH = 77
"""The follower's broker epoch."""
LONG_MS = 10_000
SOON = 2.0
"""Seconds: sooner than any long poll here ends by itself."""


class Decider:
    """A controller that decides about in-sync sets as the test tells it."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.asked: list[AlterPartitionRequest] = []
        self.errors: list[ErrorCode] = []
        """For the next requests, one each; then they succeed."""

    async def handle(self, api_key: int, request: Any, **circumstances: Any) -> Any:
        if api_key != AlterPartitionRequest.API_KEY:
            return await self._real.handle(api_key, request, **circumstances)
        self.asked.append(request)
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        await asyncio.sleep(0)
        return AlterPartitionResponse(
            topics=[
                AlterPartitionResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlterPartitionResponsePartitionData(
                            partition_index=each.partition_index,
                            error_code=error,
                            leader_id=OWN,
                            leader_epoch=each.leader_epoch,
                            isr=[member.broker_id for member in each.new_isr_with_epochs],
                            partition_epoch=each.partition_epoch + 1,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class Scene:
    """A node that leads topic t, and the follower that the node believes in."""

    def __init__(self, node: Node, producer: Asker, follower: Asker, topic_id: bytes) -> None:
        self.broker: Broker = node.broker
        self.producer = producer
        self.asker = follower
        self.topic_id = topic_id
        self.decider = Decider(self.broker.controller)
        self.broker.controller = self.decider
        self.know(FOLLOWER)

    def partition(self, index: int = 0) -> Partition:
        return self.broker.hosted["t", index]

    def know(self, node_id: int, **state: Any) -> None:
        """Let the node hear of another broker."""
        image = self.broker.image
        state.setdefault("fenced", False)
        brokers = {
            **image.cluster.brokers,
            node_id: BrokerImage(node_id, b"i" * 16, EPOCH, (), {}, **state),
        }
        parts = {name: getattr(image, name) for name in PARTS}
        parts["cluster"] = ClusterImage(brokers, image.cluster.controllers)
        self.broker.image = MetadataImage(image.offset, image.epoch, **parts)
        self.broker.isr_changes.peers.brokers = brokers

    def lead(self, isr: tuple[int, ...], index: int = 0, epoch: int = 1) -> Partition:
        partition = self.partition(index)
        partition.lead(
            epoch,
            isr,
            (OWN, FOLLOWER),
            partition_epoch=10,
            now=self.broker.clock.monotonic(),
        )
        return partition

    def request(self, *offsets: int, **options: Any) -> FetchRequest:
        """A follower's fetch from these offsets, one for each partition."""
        replica_id = options.pop("replica_id", FOLLOWER)
        epoch = options.pop("epoch", EPOCH)
        leader_epoch = options.pop("leader_epoch", 1)
        start = options.pop("start", 0)
        return FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=epoch),
            topics=[
                FetchTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            current_leader_epoch=leader_epoch,
                            log_start_offset=start,
                            partition_max_bytes=1 << 20,
                        )
                        for index, offset in enumerate(offsets)
                    ],
                )
            ]
            if offsets
            else [],
            **{"min_bytes": 1, "max_wait_ms": 0, "max_bytes": 1 << 24, **options},
        )

    async def fetch(self, *offsets: int, **options: Any) -> Any:
        """The answer for each partition of a follower's fetch."""
        response = await self.asker.ask(self.request(*offsets, **options), VERSION)
        assert not response.error_code, response
        found = [part for topic in response.responses for part in topic.partitions]
        return found[0] if len(offsets) == 1 and found else found

    async def parked(self, count: int = 1) -> None:
        async with asyncio.timeout(5):
            while self.broker.parked_fetches != count:
                await asyncio.sleep(0.002)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with (
        running_node(tmp_path, {"replica.lag.time.max.ms": "30000"}) as node,
        asking(port_of(node)) as producer,
        asking(port_of(node)) as follower,
    ):
        topic_id = await producer.create("t", 3)
        yield Scene(node, producer, follower, topic_id)


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
    assert len(partition._followers) == 1
    closing = scene.request(session_id=opened.session_id, session_epoch=-1)
    await scene.asker.ask(closing, VERSION)
    await scene.fetch(0)  # without a session
    assert not partition._followers and len(scene.broker.fetch_sessions) == 0


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


async def test_a_broker_that_is_unfenced_joins_though_its_partitions_are_quiet(
    scene: Scene,
) -> None:
    scene.know(FOLLOWER, fenced=True)
    partition = scene.lead((OWN,))
    await scene.fetch(0, session_epoch=0)
    assert not scene.decider.asked
    scene.know(FOLLOWER)
    scene.broker.isr_changes._review()
    await joined(scene, partition)


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
