"""Clients with few rights: what they are allowed works, and they hear why the rest does not.

The node asks nobody who they are, so that everybody is User:ANONYMOUS, and has an authorizer. The
test itself manages ACLs as the same user, and so does the node if it talks to itself: they may do
anything to the cluster, which opens no topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

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
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from penstock.app.security import STANDARD_AUTHORIZER
from tests.oracle.nodes import Node

SECONDS_MAX = 20
ME, NOBODY = "User:ANONYMOUS", "User:nobody"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE

CONFIG = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
}


class Guarded:
    """The node, and what its only user may do."""

    def __init__(self, node: Node) -> None:
        self.bootstrap = node.bootstrap
        self.admin = AdminClient({"bootstrap.servers": node.bootstrap})

    def close_all(self) -> None:
        """Forbid all that is not allowed: where an entry is, what it does not allow is closed."""
        mine = binding(CLUSTER, "kafka-cluster", AclOperation.ALL)
        kinds = (TOPIC, GROUP, TRANSACTION)
        self._write([mine, *(binding(kind, "*", READ, who=NOBODY) for kind in kinds)])

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        self._write([binding(kind, name, each) for each in operations])

    def withdraw(self, kind: ResourceType, name: str) -> None:
        pattern = ResourcePatternType.LITERAL
        any_of = AclOperation.ANY, AclPermissionType.ANY
        filters = [AclBindingFilter(kind, name, pattern, ME, None, *any_of)]
        [done] = self.admin.delete_acls(filters).values()
        done.result(SECONDS_MAX)

    def create(self, name: str, *operations: AclOperation) -> None:
        """A topic to which there are these rights, and no others."""
        [made] = self.admin.create_topics([NewTopic(name, 1, 1)]).values()
        made.result(SECONDS_MAX)
        if operations:
            self.allow(TOPIC, name, *operations)

    def _write(self, bindings: list[AclBinding]) -> None:
        for done in self.admin.create_acls(bindings).values():
            done.result(SECONDS_MAX)

    # -- clients ----------------------------------------------------------------------------------

    def producer(self, **options: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, **options})

    def consumer(self, group: str, protocol: str = "classic", **options: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                **options,
            }
        )


def binding(kind: ResourceType, name: str, operation: AclOperation, who: str = ME) -> AclBinding:
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, who, "*", operation, AclPermissionType.ALLOW
    )


@pytest.fixture(scope="module")
def guarded(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with target(tmp_path_factory.mktemp("guarded"), config=CONFIG) as node:
        scene = Guarded(node)
        scene.close_all()
        yield scene


def sent(producer: Producer, topic: str, value: bytes = b"v") -> int:
    """The error of one delivery, 0 if there is none.

    A client that has heard of it in time refuses the record itself, with the same error.
    """
    errors: list[KafkaError | None] = []
    try:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    except KafkaException as refused:
        code: int = refused.args[0].code()
        return code
    producer.flush(SECONDS_MAX)
    [error] = errors
    return 0 if error is None else int(error.code())


def polled(consumer: Consumer) -> Any:
    """The first record or error that comes."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            return message
    raise AssertionError("nothing came")


# -- librdkafka -----------------------------------------------------------------------------------


def test_a_producer_writes_where_it_may_until_it_may_not(guarded: Guarded, topic: str) -> None:
    guarded.create(topic, WRITE)
    guarded.create(f"{topic}-theirs")
    for options in ({}, {"enable.idempotence": True}, {"acks": 1, "linger.ms": 0}):
        assert sent(guarded.producer(**options), topic) == 0
        theirs = sent(guarded.producer(**options), f"{topic}-theirs")
        assert theirs == KafkaError.TOPIC_AUTHORIZATION_FAILED
    producer = guarded.producer()
    assert sent(producer, topic) == 0
    guarded.withdraw(TOPIC, topic)
    assert sent(producer, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_reads_with_rights_to_group_and_topic(
    guarded: Guarded, topic: str, protocol: str
) -> None:
    guarded.create(topic, WRITE, READ)
    assert sent(guarded.producer(), topic, b"hello") == 0
    guarded.allow(GROUP, f"g-{topic}", READ)
    consumer = guarded.consumer(f"g-{topic}", protocol)
    consumer.subscribe([topic])
    message = polled(consumer)
    assert message.error() is None and message.value() == b"hello"
    consumer.commit(message, asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_without_a_right_hears_which(guarded: Guarded, topic: str, protocol: str) -> None:
    guarded.create(topic, WRITE)
    consumer = guarded.consumer(f"g-{topic}", protocol)
    consumer.subscribe([topic])
    assert polled(consumer).error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    guarded.create(f"{topic}-theirs")
    guarded.allow(GROUP, f"g-{topic}", READ)
    consumer = guarded.consumer(f"g-{topic}", protocol)
    consumer.subscribe([f"{topic}-theirs"])
    assert polled(consumer).error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


def test_an_expression_finds_what_may_be_described(guarded: Guarded, topic: str) -> None:
    guarded.create(f"{topic}-a", WRITE, READ)
    guarded.create(f"{topic}-b")
    assert sent(guarded.producer(), f"{topic}-a", b"found") == 0
    guarded.allow(GROUP, f"g-{topic}", READ)
    for protocol in ("classic", "consumer"):
        consumer = guarded.consumer(f"g-{topic}", protocol, **{"enable.auto.commit": False})
        consumer.subscribe([f"^{topic}-.*"])
        assert polled(consumer).value() == b"found"
        assert {each.topic for each in consumer.assignment()} == {f"{topic}-a"}
        consumer.close()


def test_who_may_only_describe_reads_nothing(guarded: Guarded, topic: str) -> None:
    guarded.create(topic, DESCRIBE)
    guarded.allow(GROUP, f"g-{topic}", READ)
    consumer = guarded.consumer(f"g-{topic}")
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX) == (0, 0)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert polled(consumer).error().code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


def test_topics_are_listed_and_made_by_right(guarded: Guarded, topic: str) -> None:
    guarded.create(topic, DESCRIBE)
    guarded.create(f"{topic}-theirs")
    listed = guarded.admin.list_topics(timeout=SECONDS_MAX).topics
    assert topic in listed and f"{topic}-theirs" not in listed
    for name in (f"{topic}-theirs", f"{topic}-absent"):
        found = guarded.admin.list_topics(name, timeout=SECONDS_MAX).topics[name]
        assert found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert f"{topic}-absent" not in guarded.admin.list_topics(timeout=SECONDS_MAX).topics


def test_a_transaction_needs_rights_to_its_id_topics_and_group(
    guarded: Guarded, topic: str
) -> None:
    guarded.create(topic, WRITE, READ)
    guarded.create(f"{topic}-theirs")
    producer = guarded.producer(**{"transactional.id": f"x-{topic}"})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(SECONDS_MAX)
    code = refused.value.args[0].code()
    assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    guarded.allow(TRANSACTION, f"x-{topic}", WRITE)
    guarded.allow(GROUP, f"g-{topic}", READ)
    producer = guarded.producer(**{"transactional.id": f"x-{topic}"})
    producer.init_transactions(SECONDS_MAX)
    consumer = guarded.consumer(f"g-{topic}")
    producer.begin_transaction()
    producer.produce(topic, b"kept")
    offsets = [TopicPartition(topic, 0, 1)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS_MAX)
    producer.commit_transaction(SECONDS_MAX)
    [committed] = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS_MAX)
    assert committed.offset == 1
    producer.begin_transaction()
    assert sent(producer, f"{topic}-theirs") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    producer.abort_transaction(SECONDS_MAX)
    consumer.close()


# -- kafka-python ---------------------------------------------------------------------------------


def test_kafka_python_reads_and_writes_by_right(guarded: Guarded, topic: str) -> None:
    guarded.create(topic, WRITE, READ)
    guarded.create(f"{topic}-theirs")
    guarded.allow(GROUP, f"g-{topic}", READ)
    producer = KafkaProducer(bootstrap_servers=guarded.bootstrap, max_block_ms=SECONDS_MAX * 1000)
    assert producer.send(topic, b"hello").get(SECONDS_MAX).offset == 0
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(f"{topic}-theirs", b"no").get(SECONDS_MAX)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=guarded.bootstrap,
        group_id=f"g-{topic}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS_MAX * 1000,
    )
    assert next(consumer).value == b"hello"
    consumer.close()
    stranger = KafkaConsumer(
        topic, bootstrap_servers=guarded.bootstrap, group_id=f"g-{topic}-theirs"
    )
    with pytest.raises(GroupAuthorizationFailedError):
        stranger.poll(SECONDS_MAX * 1000)
    stranger.close(autocommit=False)
