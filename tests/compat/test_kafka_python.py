"""kafka-python: the pure-Python client, with its own implementation of everything."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from tests.compat.records import CODECS, TIMESTAMP_STEP_MS, Expected, sample
from tests.oracle.nodes import Node

SECONDS_MAX = 20


@pytest.fixture
def admin(broker: Node) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def create(admin: KafkaAdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
    admin.wait_for_topics([topic])


def produce(broker: Node, topic: str, records: list[Expected], codec: str = "none") -> list[int]:
    """Send to partition 0 and return the offsets in send order."""
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        compression_type=None if codec == "none" else codec,
        acks="all",
    )
    sent = [
        producer.send(
            topic, record.value, record.key, list(record.headers), 0, timestamp_ms=record.timestamp
        )
        for record in records
    ]
    producer.flush(SECONDS_MAX)
    offsets = [future.get(SECONDS_MAX).offset for future in sent]
    producer.close()
    return offsets


def consume(consumer: KafkaConsumer, count: int) -> list[Expected]:
    found: list[Expected] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=1000, max_records=count - len(found)).values():
            found += [
                Expected(each.key, each.value, tuple(each.headers), each.timestamp)
                for each in records
            ]
    return found


@pytest.fixture
def consumer(broker: Node) -> Iterator[KafkaConsumer]:
    client = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", check_crcs=True
    )
    yield client
    client.close()


def test_a_created_topic_is_described_and_a_deleted_one_is_gone(
    admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic, partitions=3)
    [described] = admin.describe_topics([topic])
    assert described["name"] == topic
    assert sorted(each["partition_index"] for each in described["partitions"]) == [0, 1, 2]
    assert {each["leader_id"] for each in described["partitions"]} == {1}
    assert topic in admin.list_topics()

    admin.delete_topics([topic])
    deadline = time.monotonic() + SECONDS_MAX
    while topic in admin.list_topics() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert topic not in admin.list_topics()


def test_creating_a_topic_twice_is_refused_by_name(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    with pytest.raises(TopicAlreadyExistsError):
        create(admin, topic)


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent_with(
    broker: Node, admin: KafkaAdminClient, consumer: KafkaConsumer, topic: str, codec: str
) -> None:
    create(admin, topic)
    sent = sample(codec, int(time.time() * 1000) - 3_600_000)
    assert produce(broker, topic, sent, codec) == list(range(len(sent)))
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    assert consume(consumer, len(sent)) == sent


def test_a_consumer_seeks_by_offset_and_by_timestamp(
    broker: Node, admin: KafkaAdminClient, consumer: KafkaConsumer, topic: str
) -> None:
    create(admin, topic)
    first = int(time.time() * 1000) - 3_600_000
    sent = sample("none", first)
    produce(broker, topic, sent[:9])
    produce(broker, topic, sent[9:])
    where = TopicPartition(topic, 0)
    consumer.assign([where])

    consumer.seek(where, 7)
    assert consume(consumer, 13) == sent[7:]
    between = first + 11 * TIMESTAMP_STEP_MS - 1
    found = consumer.offsets_for_times({where: between})[where]
    assert (found.offset, found.timestamp) == (11, sent[11].timestamp)
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: 20}


def test_records_before_an_offset_are_deleted(
    broker: Node, admin: KafkaAdminClient, consumer: KafkaConsumer, topic: str
) -> None:
    create(admin, topic)
    produce(broker, topic, sample("none", int(time.time() * 1000) - 3_600_000))
    where = TopicPartition(topic, 0)
    admin.delete_records({where: 12})
    assert consumer.beginning_offsets([where]) == {where: 12}


def test_configuration_set_at_creation_is_described(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="1234567")
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    assert "1234567" in str(described), described


def test_the_cluster_describes_itself(broker: Node, admin: KafkaAdminClient) -> None:
    described = admin.describe_cluster()
    assert described["cluster_id"]
    assert [(node["host"], node["port"]) for node in described["brokers"]] == [
        ("127.0.0.1", broker.port)
    ]
