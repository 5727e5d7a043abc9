"""What a client with a quota hears from a node, and how long it is not listened to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.generated import alter_client_quotas as altering
from penstock.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from penstock.protocol.message import Message
from penstock.records.builder import BatchBuilder
from tests.unit.server.asking import NOON, Asker, asking, asking_node, batch, port_of, running_node
from tests.unit.server.rights_scene import cluster, guarded_node

CLIENT = "asking"
WINDOW_SECONDS = 10


async def grant(asker: Asker, **quotas: float) -> None:
    """Give the client of these tests quotas."""
    request = altering.AlterClientQuotasRequest(
        entries=[
            altering.AlterClientQuotasRequestEntryData(
                entity=[
                    altering.AlterClientQuotasRequestEntityData(
                        entity_type="client-id", entity_name=CLIENT
                    )
                ],
                ops=[altering.OpData(key=key, value=value) for key, value in quotas.items()],
            )
        ]
    )
    response = await asker.ask(request, 1)
    assert [entry.error_code for entry in response.entries] == [ErrorCode.NONE]


def large(size: int) -> bytes:
    """A batch of one record with so many bytes."""
    builder = BatchBuilder()
    builder.append(None, bytes(size), NOON)
    return builder.build()


def producing(topic: str, records: bytes, acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=records)]
            )
        ],
    )


def fetching(topic: str, offset: int = 0, session: tuple[int, int] = (0, -1)) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )


async def is_not_read(asker: Asker, seconds: float = 0.2) -> bool:
    """Whether the node does not answer for now."""
    asker.send(MetadataRequest(topics=[]), 9)
    try:
        async with asyncio.timeout(seconds):
            await asker._reader.readexactly(4)
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize("version", [3, 8, 9, 12])
async def test_a_producer_over_its_quota_is_told_so_and_not_read(
    tmp_path: Path, version: int
) -> None:
    async with asking_node(tmp_path) as asker:
        await asker.create("t")
        await grant(asker, producer_byte_rate=1000)
        first = await asker.ask(producing("t", batch(1)), version)
        assert first.throttle_time_ms == 0
        second = await asker.ask(producing("t", large(11_000)), version)
        assert second.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert 1000 < second.throttle_time_ms < 30_000
        assert await is_not_read(asker)
        asker.close()


async def test_a_producer_that_wants_no_answers_is_held_up_too(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await asker.create("t")
        await grant(asker, producer_byte_rate=1000)
        asker.send(producing("t", large(20_000), acks=0), 9)
        assert await is_not_read(asker)


async def test_a_producer_goes_on_when_its_time_is_over(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await asker.create("t")
        await grant(asker, producer_byte_rate=100_000)
        answer = await asker.ask(producing("t", large(1_040_000)), 9)
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert 200 < answer.throttle_time_ms < 1500
        assert (await asker.produce("t", batch(1))).error_code == ErrorCode.NONE
        assert loop.time() - began >= answer.throttle_time_ms / 1000 - 0.02


async def test_others_are_served_meanwhile(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        await asker.create("t")
        await grant(asker, producer_byte_rate=1000)
        await asker.ask(producing("t", large(11_000)), 9)
        async with asking(port_of(node)) as other:
            assert not await is_not_read(other, 5)


async def test_a_reader_over_its_quota_gets_nothing_and_asks_again(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await asker.create("t")
        await asker.produce("t", large(18_000))
        await grant(asker, consumer_byte_rate=1000)
        read = await asker.ask(fetching("t"), 11)
        assert read.throttle_time_ms == 0
        assert len(read.responses[0].partitions[0].records) > 18_000
        held_back = await asker.ask(fetching("t"), 11)
        assert 5000 < held_back.throttle_time_ms < 10_000
        assert held_back.responses == []
        assert await is_not_read(asker)


async def test_a_fetch_that_is_held_back_leaves_no_session_behind(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        await asker.create("t")
        await asker.produce("t", large(18_000))
        await grant(asker, consumer_byte_rate=1000)
        await asker.ask(fetching("t"), 11)
        sessions = len(node.broker.fetch_sessions)
        held_back = await asker.ask(fetching("t", session=(0, 0)), 11)
        assert (held_back.session_id, held_back.throttle_time_ms > 0) == (0, True)
        assert len(node.broker.fetch_sessions) == sessions


async def test_a_fetch_takes_no_more_than_a_window_grants(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await asker.create("t")
        for _ in range(10):
            await asker.produce("t", large(3_000))
        await grant(asker, consumer_byte_rate=1000)
        read = await asker.ask(fetching("t"), 11)
        assert read.throttle_time_ms == 0
        assert 6000 < len(read.responses[0].partitions[0].records) <= 1000 * WINDOW_SECONDS


async def test_time_that_requests_take_counts(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await grant(asker, request_percentage=0.001)
        throttled: list[int] = []
        for _ in range(200):  # a tenth of a millisecond in ten seconds is soon used up
            answer = await asker.ask(MetadataRequest(topics=None), 9)
            throttled.append(answer.throttle_time_ms)
            if throttled[-1]:
                break
        assert 0 < throttled[-1] <= 1000
        assert await is_not_read(asker, min(throttled[-1] / 1000, 0.1) * 0.5)


def _made(names: list[str], partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name in names
        ],
        timeout_ms=10_000,
    )


async def test_changes_beyond_the_quota_are_refused_topic_by_topic(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await grant(asker, controller_mutation_rate=1.0)
        answer = await asker.ask(_made(["a", "b"], 13), 7)
        assert [topic.error_code for topic in answer.topics] == [
            ErrorCode.NONE,
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ]
        assert 500 < answer.throttle_time_ms <= 2000
        assert await is_not_read(asker)


async def test_older_clients_get_what_they_ask_and_wait(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await grant(asker, controller_mutation_rate=1.0)
        answer = await asker.ask(_made(["a", "b"], 7), 5)
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE] * 2
        assert 1000 < answer.throttle_time_ms <= 3000


async def test_deleting_and_growing_use_up_the_same_quota(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        await asker.create("a", partitions=5)
        await asker.create("b")
        await grant(asker, controller_mutation_rate=1.0)
        grown: Any = await asker.ask(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="b", count=9, assignments=None)],
                timeout_ms=5000,
            ),
            3,
        )
        assert [each.error_code for each in grown.results] == [ErrorCode.NONE]
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="a"), DeleteTopicState(name="b")], timeout_ms=5000
        )
        deleted = await asker.ask(request, 6)
        assert sorted((each.name, each.error_code) for each in deleted.responses) == [
            ("a", ErrorCode.NONE),
            ("b", ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        ]
        assert set(node.broker.image.topics.by_name) == {"b"}


async def test_topics_that_are_created_because_they_are_asked_about_use_it_up_too(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        await grant(asker, controller_mutation_rate=1.0)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=f"t{number}") for number in range(20)],
            allow_auto_topic_creation=True,
        )
        answer = await asker.ask(request, 9)
        errors = [topic.error_code for topic in answer.topics]
        assert errors.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) >= 5
        assert 11 <= len(node.broker.image.topics.by_name) <= 15


def _adding() -> AddPartitionsToTxnRequest:
    transaction = AddPartitionsToTxnTransaction(transactional_id="t", verify_only=True)
    return AddPartitionsToTxnRequest(transactions=[transaction])


def _marking() -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=1)])


@pytest.mark.parametrize(("request_", "version"), [(_adding(), 5), (_marking(), 1)])
@pytest.mark.parametrize("is_broker", [True, False])
async def test_only_who_is_a_broker_is_not_held_up_for_what_brokers_ask(
    tmp_path: Path, request_: Message, version: int, is_broker: bool
) -> None:
    async with guarded_node(tmp_path) as node:
        # So little that two requests are too many, however quick the machine is.
        await grant(node.asker, request_percentage=0.00001)
        await node.may(cluster(Operation.CLUSTER_ACTION) if is_broker else [])
        async with asking(port_of(node.node)) as asker:
            for _ in range(2):
                await asker.ask(request_, version)
            assert await is_not_read(asker) is not is_broker
