"""aiokafka: the asyncio client, which still speaks older versions of most requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from tests.compat.records import CODECS, TIMESTAMP_STEP_MS, Expected, sample
from tests.oracle.nodes import Node

SECONDS_MAX = 20


@pytest.fixture
async def admin(broker: Node) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    yield client
    await client.close()


@pytest.fixture
async def consumer(broker: Node) -> AsyncIterator[AIOKafkaConsumer]:
    client = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", check_crcs=True
    )
    await client.start()
    yield client
    await client.stop()


async def create(admin: AIOKafkaAdminClient, topic: str, partitions: int = 1) -> None:
    answer = await admin.create_topics([NewTopic(topic, partitions, 1)])
    assert [error[:2] for error in answer.topic_errors] == [(topic, 0)]


async def produce(
    broker: Node, topic: str, records: list[Expected], codec: str = "none", **options: object
) -> list[int]:
    """Send to partition 0 and return the offsets in send order."""
    async with AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap,
        compression_type=None if codec == "none" else codec,
        **options,
    ) as producer:
        sent = [
            await producer.send(
                topic, record.value, record.key, 0, record.timestamp, list(record.headers)
            )
            for record in records
        ]
        return [(await each).offset for each in sent]


async def consume(consumer: AIOKafkaConsumer, count: int) -> list[Expected]:
    async with asyncio.timeout(SECONDS_MAX):
        records = [await consumer.getone() for _ in range(count)]
    return [Expected(each.key, each.value, tuple(each.headers), each.timestamp) for each in records]


async def test_a_created_topic_is_described_and_a_deleted_one_is_gone(
    admin: AIOKafkaAdminClient, topic: str
) -> None:
    await create(admin, topic, partitions=3)
    deadline = time.monotonic() + SECONDS_MAX
    [described] = await admin.describe_topics([topic])
    while described["error_code"] and time.monotonic() < deadline:
        [described] = await admin.describe_topics([topic])
    assert sorted(each["partition"] for each in described["partitions"]) == [0, 1, 2]
    assert {each["leader"] for each in described["partitions"]} == {1}

    await admin.delete_topics([topic])
    while topic in await admin.list_topics() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert topic not in await admin.list_topics()


@pytest.mark.parametrize("codec", CODECS)
async def test_records_come_back_as_they_were_sent_with(
    broker: Node, admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer, topic: str, codec: str
) -> None:
    await create(admin, topic)
    sent = sample(codec, int(time.time() * 1000) - 3_600_000)
    offsets = await produce(broker, topic, sent, codec, enable_idempotence=True)
    assert offsets == list(range(len(sent)))
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.seek_to_beginning()
    assert await consume(consumer, len(sent)) == sent


async def test_a_consumer_seeks_by_offset_and_by_timestamp(
    broker: Node, admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer, topic: str
) -> None:
    await create(admin, topic)
    first = int(time.time() * 1000) - 3_600_000
    sent = sample("none", first)
    await produce(broker, topic, sent[:9], acks=1)
    await produce(broker, topic, sent[9:], acks="all")
    where = TopicPartition(topic, 0)
    consumer.assign([where])

    consumer.seek(where, 7)
    assert await consume(consumer, 13) == sent[7:]
    between = first + 11 * TIMESTAMP_STEP_MS - 1
    found = (await consumer.offsets_for_times({where: between}))[where]
    assert (found.offset, found.timestamp) == (11, sent[11].timestamp)
    assert await consumer.end_offsets([where]) == {where: 20}


async def test_records_before_an_offset_are_deleted(
    broker: Node, admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer, topic: str
) -> None:
    await create(admin, topic)
    await produce(broker, topic, sample("none", int(time.time() * 1000) - 3_600_000))
    where = TopicPartition(topic, 0)
    await admin.delete_records({where: RecordsToDelete(before_offset=12)})
    assert await consumer.beginning_offsets([where]) == {where: 12}


async def test_the_cluster_describes_itself(broker: Node, admin: AIOKafkaAdminClient) -> None:
    described = await admin.describe_cluster()
    assert [(node["host"], node["port"]) for node in described["brokers"]] == [
        ("127.0.0.1", broker.port)
    ]
