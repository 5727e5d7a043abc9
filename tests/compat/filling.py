"""Fill a broker with records of every shape, and read all of it back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.records import CODECS, sample
from tests.oracle.nodes import Node

SECONDS_MAX = 60


class Stored(NamedTuple):
    """A record and where it stands."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def fill(node: Node, partitions: int = 2, rounds: int = 40) -> list[Stored]:
    """One topic per codec, small segments, several producers; returns all that was acknowledged."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    config = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}
    topics = [NewTopic(f"filled-{codec}", partitions, 1, config=config) for codec in CODECS]
    for made in admin.create_topics(topics).values():
        made.result(SECONDS_MAX)

    stored: list[Stored] = []

    def acknowledge(headers: tuple[tuple[str, bytes], ...]) -> Callable[..., None]:
        # A delivery report repeats all of the message but its headers.
        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            stored.append(_stored(message)._replace(headers=headers))

        return delivered

    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": node.bootstrap, "enable.idempotence": True,
             "compression.type": codec, "linger.ms": 2, "batch.num.messages": 10}
        )  # fmt: skip
        begin = int(time.time() * 1000) - 3_600_000
        for number in range(rounds):
            for record in sample(codec, begin + number, 20):
                producer.produce(
                    f"filled-{codec}", record.value * (1 + number % 3), record.key,
                    partition=number % partitions, timestamp=record.timestamp,
                    headers=list(record.headers), on_delivery=acknowledge(record.headers),
                )  # fmt: skip
            producer.poll(0)
        assert producer.flush(SECONDS_MAX) == 0
    return sorted(stored)


def read_all(node: Node, expected: list[Stored]) -> list[Stored]:
    """Everything in the partitions that `expected` names, from their beginning to their end."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": uuid.uuid4().hex, "check.crcs": True,
         "enable.auto.commit": False, "enable.partition.eof": True}
    )  # fmt: skip
    places = sorted({(each.topic, each.partition) for each in expected})
    consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in places])
    found: list[Stored] = []
    ended: set[tuple[str, int]] = set()
    deadline = time.monotonic() + SECONDS_MAX
    while len(ended) < len(places) and time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.5):
            error = message.error()
            if error is None:
                found.append(_stored(message))
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add((message.topic(), message.partition()))
    consumer.close()
    assert len(ended) == len(places), f"only {ended} of {places} were read to their end"
    return sorted(found)


def _stored(message: Message) -> Stored:
    return Stored(
        message.topic(), message.partition(), message.offset(), message.timestamp()[1],
        message.key(), message.value(), tuple(message.headers() or ()),
    )  # fmt: skip
