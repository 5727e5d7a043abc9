"""librdkafka through confluent-kafka: the client most non-Java programs use."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.compat.records import CODECS, TIMESTAMP_STEP_MS, Expected, sample
from tests.oracle.nodes import Node

SECONDS_MAX = 20


@pytest.fixture
def admin(broker: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    [made] = admin.create_topics(
        [NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)]
    ).values()
    made.result(SECONDS_MAX)


def produce(broker: Node, topic: str, records: list[Expected], **config: object) -> list[int]:
    """Send to partition 0 and return the offsets in send order."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        assert error is None, error
        offsets.append(message.offset())  # type: ignore[attr-defined]

    producer = Producer(
        {"bootstrap.servers": broker.bootstrap}
        | {key.replace("_", "."): value for key, value in config.items()}
    )
    for record in records:
        producer.produce(
            topic, record.value, record.key, partition=0, timestamp=record.timestamp,
            headers=list(record.headers), on_delivery=delivered,
        )  # fmt: skip
    assert producer.flush(SECONDS_MAX) == 0
    return offsets


def consume(broker: Node, start: TopicPartition, count: int, **config: object) -> list[object]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": uuid.uuid4().hex,
         "enable.auto.commit": False, "check.crcs": True}
        | {key.replace("_", "."): value for key, value in config.items()}
    )  # fmt: skip
    consumer.assign([start])
    messages: list[object] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(messages) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(messages), 1):
            assert message.error() is None, message.error()
            messages.append(message)
    consumer.close()
    return messages


def as_expected(message: object) -> Expected:
    return Expected(
        message.key(),  # type: ignore[attr-defined]
        message.value(),  # type: ignore[attr-defined]
        tuple(message.headers() or ()),  # type: ignore[attr-defined]
        message.timestamp()[1],  # type: ignore[attr-defined]
    )


def test_a_created_topic_is_described_and_a_deleted_one_is_gone(
    admin: AdminClient, topic: str
) -> None:
    create(admin, topic, partitions=3)
    found = admin.list_topics(topic, SECONDS_MAX).topics[topic]
    assert sorted(found.partitions) == [0, 1, 2]
    assert all(each.leader == 1 and each.isrs == [1] for each in found.partitions.values())

    admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    while topic in admin.list_topics(timeout=SECONDS_MAX).topics and time.monotonic() < deadline:
        time.sleep(0.05)
    assert topic not in admin.list_topics(timeout=SECONDS_MAX).topics


def test_creating_a_topic_twice_is_refused_by_name(admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent_with(
    broker: Node, admin: AdminClient, topic: str, codec: str
) -> None:
    create(admin, topic)
    sent = sample(codec, int(time.time() * 1000) - 3_600_000)
    offsets = produce(broker, topic, sent, compression_type=codec, enable_idempotence=True)
    assert offsets == list(range(len(sent)))
    messages = consume(broker, TopicPartition(topic, 0, OFFSET_BEGINNING), len(sent))
    assert [as_expected(each) for each in messages] == sent


def test_a_consumer_seeks_by_offset_and_by_timestamp(
    broker: Node, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    first = int(time.time() * 1000) - 3_600_000
    sent = sample("none", first)
    for record in sent:  # a batch each, so that both indexes and batch bounds are crossed
        produce(broker, topic, [record])

    [by_offset] = consume(broker, TopicPartition(topic, 0, 7), 1)
    assert as_expected(by_offset) == sent[7]

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    between = first + 11 * TIMESTAMP_STEP_MS - 1
    [found] = consumer.offsets_for_times([TopicPartition(topic, 0, between)], SECONDS_MAX)
    assert found.offset == 11
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS_MAX) == (0, 20)
    consumer.close()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_delivers(
    broker: Node, admin: AdminClient, topic: str, acks: str
) -> None:
    create(admin, topic)
    sent = sample("none", int(time.time() * 1000) - 3_600_000)
    produce(broker, topic, sent, acks=acks)
    messages = consume(broker, TopicPartition(topic, 0, OFFSET_BEGINNING), len(sent))
    assert [as_expected(each) for each in messages] == sent


def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_produced(
    broker: Node, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(1.0) is None
    begin = time.monotonic()
    produce(broker, topic, sample("none", int(time.time() * 1000), 1))
    message = consumer.poll(SECONDS_MAX)
    assert message is not None and message.error() is None
    assert time.monotonic() - begin < 2, "the parked fetch was not released by the append"
    consumer.close()


def test_a_record_over_the_topics_limit_is_refused_and_the_next_one_accepted(
    broker: Node, admin: AdminClient, topic: str
) -> None:
    create(admin, topic, max_message_bytes="2000")
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for size in (5000, 100):
        producer.produce(topic, b"x" * size, on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(SECONDS_MAX)
    assert outcomes[0] is not None and outcomes[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert outcomes[1] is None


def test_configuration_is_described_altered_and_reset(admin: AdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="1234567")
    assert config_of(admin, topic)["retention.ms"].value == "1234567"
    alter = ConfigResource(ResourceType.TOPIC, topic)
    alter.add_incremental_config(
        ConfigEntry("segment.bytes", "2097152", incremental_operation=AlterConfigOpType.SET)
    )
    alter.add_incremental_config(
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    )
    [altered] = admin.incremental_alter_configs([alter]).values()
    altered.result(SECONDS_MAX)
    after = config_of(admin, topic)
    assert after["segment.bytes"].value == "2097152"
    assert after["retention.ms"].value == "604800000" and after["retention.ms"].is_default


def config_of(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    [answer] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    described: dict[str, ConfigEntry] = answer.result(SECONDS_MAX)
    return described


def test_a_bad_configuration_value_is_refused(admin: AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as refused:
        create(admin, topic, retention_ms="soon")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_partitions_are_added_and_records_deleted(
    broker: Node, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    [grown] = admin.create_partitions([NewPartitions(topic, 4)]).values()
    grown.result(SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    while len(admin.list_topics(topic, SECONDS_MAX).topics[topic].partitions) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)

    produce(broker, topic, sample("none", int(time.time() * 1000) - 3_600_000))
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 12)]).values()
    assert deleted.result(SECONDS_MAX).low_watermark == 12
    [earliest] = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()}).values()
    assert earliest.result(SECONDS_MAX).offset == 12
    [message] = consume(broker, TopicPartition(topic, 0, OFFSET_BEGINNING), 1)
    assert message.offset() == 12  # type: ignore[attr-defined]


def test_the_offset_of_the_largest_timestamp_is_listed(
    broker: Node, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    now = int(time.time() * 1000)
    sent = [record._replace(timestamp=now - abs(number - 5) * 1000)
            for number, record in enumerate(sample("none", now, 12))]  # fmt: skip
    produce(broker, topic, sent)
    [largest] = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()}).values()
    assert largest.result(SECONDS_MAX).offset == 5


def test_an_unknown_topic_is_created_by_its_first_record(broker: Node, topic: str) -> None:
    sent = sample("none", int(time.time() * 1000) - 3_600_000, 1)
    assert produce(broker, topic, sent) == [0]
    [message] = consume(broker, TopicPartition(topic, 0, 0), 1)
    assert as_expected(message) == sent[0]


def test_the_cluster_describes_itself(broker: Node, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(SECONDS_MAX)
    assert described.cluster_id
    assert [(node.id, node.host, node.port) for node in described.nodes] == [
        (1, "127.0.0.1", broker.port)
    ]
