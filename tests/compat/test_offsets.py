"""Offsets that real clients commit: kept over restarts and kills, and carried between brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka import TopicPartition as Place
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from tests.oracle.nodes import ApacheNode, Node, PenstockNode

SECONDS_MAX = 30


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


def produce(node: Node, topic: str, count: int = 100) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0


def consume(node: Node, group: str, topic: str, count: int) -> list[int]:
    """Read some records from where the group stopped, commit, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    if isinstance(node, ApacheNode):
        patiently(lambda: consumer.committed([TopicPartition(topic, 0)], SECONDS_MAX))
    consumer.assign([TopicPartition(topic, 0)])
    found: list[int] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(int(message.value() or b"-1"))
    consumer.commit(asynchronous=False)
    begun = time.monotonic()
    consumer.close()
    assert time.monotonic() - begun < 5, "closing a consumer without a subscription is quick"
    return found


def patiently(act: Callable[[], object]) -> None:
    """Apache Kafka names a coordinator a moment before it is one."""
    for _ in range(50):
        try:
            act()
            return
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
        time.sleep(0.2)
    raise AssertionError("nobody coordinates the group")


def test_a_consumer_carries_on_where_it_stopped(broker: Node, topic: str, group: str) -> None:
    produce(broker, topic)
    assert consume(broker, group, topic, 10) == [*range(10)]
    assert consume(broker, group, topic, 20) == [*range(10, 30)]
    assert consume(broker, f"{group}-2", topic, 3) == [0, 1, 2]


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_what_was_committed_outlives_the_broker(
    make_node: Callable[..., Node], topic: str, group: str, ended: str
) -> None:
    node = make_node()
    node.start()
    produce(node, topic)
    assert consume(node, group, topic, 10) == [*range(10)]
    node.stop() if ended == "stopped" else node.kill()
    node.start()
    assert consume(node, group, topic, 10) == [*range(10, 20)]


@pytest.fixture
def admin(broker: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def test_the_admin_client_alters_lists_and_deletes(
    broker: Node, admin: AdminClient, topic: str, group: str
) -> None:
    produce(broker, topic)
    wanted = ConsumerGroupTopicPartitions(
        group, [TopicPartition(topic, 0, 42, metadata="by hand"), TopicPartition(topic, 9, 1)]
    )

    def alter() -> list[TopicPartition]:
        [answer] = admin.alter_consumer_group_offsets([wanted]).values()
        found: list[TopicPartition] = answer.result(SECONDS_MAX).topic_partitions
        return found

    patiently(alter)
    errors = {each.partition: each.error for each in alter()}
    assert errors[0] is None
    assert errors[9] is not None and errors[9].code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    [answer] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    [found] = answer.result(SECONDS_MAX).topic_partitions
    assert (found.topic, found.partition, found.offset) == (topic, 0, 42)
    assert found.metadata == "by hand"

    listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(SECONDS_MAX)
    assert not listed.errors and group in [each.group_id for each in listed.valid]
    stable = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(SECONDS_MAX)
    assert group not in [each.group_id for each in stable.valid]

    admin.delete_consumer_groups([group])[group].result(SECONDS_MAX)
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(SECONDS_MAX)
    assert refused.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


@pytest.fixture
def kafka_python(broker: Node, group: str) -> Iterator[KafkaConsumer]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
    )
    yield consumer
    consumer.close()


def test_kafka_python_commits_and_its_admin_client_sees_it(
    broker: Node, kafka_python: KafkaConsumer, topic: str, group: str
) -> None:
    produce(broker, topic)
    place = Place(topic, 0)
    kafka_python.assign([place])
    kafka_python.commit({place: OffsetAndMetadata(17, "note", -1)})
    assert kafka_python.committed(place) == 17
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        assert client.list_group_offsets(group)[group][place].offset == 17
        assert group in [each["group_id"] for each in _listed(client)]
    finally:
        client.close()


def _listed(client: KafkaAdminClient) -> list[dict[str, str]]:
    found: list[dict[str, str]] = client.list_groups()
    return found


def test_metadata_that_is_too_long_is_refused_and_the_old_offset_stays(
    broker: Node, topic: str, group: str
) -> None:
    produce(broker, topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})

    def commit(offset: int, metadata: str) -> None:
        consumer.commit(
            offsets=[TopicPartition(topic, 0, offset, metadata=metadata)], asynchronous=False
        )

    patiently(lambda: commit(5, "x" * 4000))
    with pytest.raises(KafkaException) as refused:
        commit(6, "x" * 5000)
    assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    [found] = consumer.committed([TopicPartition(topic, 0)], SECONDS_MAX)
    assert found.offset == 5
    consumer.close()


def test_offsets_of_a_transaction_count_when_it_commits_and_not_when_it_aborts(
    broker: Node, topic: str, group: str
) -> None:
    produce(broker, topic)
    place = TopicPartition(topic, 0)
    settings = {"bootstrap.servers": broker.bootstrap}
    consumer = Consumer({**settings, "group.id": group})
    producer = Producer({**settings, "transactional.id": f"txn-{topic}"})
    producer.init_transactions(SECONDS_MAX)

    def committed() -> int:
        [found] = consumer.committed([place], SECONDS_MAX)
        return int(found.offset)

    def send_offset(offset: int) -> None:
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), SECONDS_MAX
        )

    patiently(committed)
    send_offset(10)
    producer.commit_transaction(SECONDS_MAX)
    assert committed() == 10
    send_offset(20)
    producer.abort_transaction(SECONDS_MAX)
    assert committed() == 10
    send_offset(30)
    consumer.commit(offsets=[TopicPartition(topic, 0, 40)], asynchronous=False)
    producer.commit_transaction(SECONDS_MAX)
    assert committed() == 40, "the later commit wins, not the later marker"
    consumer.close()


@pytest.mark.java
@pytest.mark.penstock_only
@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_offsets_change_hands_with_the_directory(
    tmp_path: Path, topic: str, group: str, ended: str
) -> None:
    """From Apache Kafka to Penstock and back: each carries on where the other stopped."""
    owners = [
        ApacheNode(tmp_path / "first", data=tmp_path / "data"),
        PenstockNode(tmp_path / "second", data=tmp_path / "data"),
        ApacheNode(tmp_path / "third", data=tmp_path / "data"),
    ]
    for number, owner in enumerate(owners):
        with owner:
            if number == 0:
                produce(owner, topic)
            assert consume(owner, group, topic, 10) == [*range(10 * number, 10 * number + 10)]
            assert consume(owner, f"{group}-{number}", topic, 5) == [*range(5)]
            owner.stop() if ended == "stopped" else owner.kill()
