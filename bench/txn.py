"""The case of transactions: one producer that commits a hundred records at a time."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import topics
from bench.model import Case, Criterion, Kind, Measures, Scale, cpu
from bench.process import Spent
from bench.rdkafka import ClientFailed
from tests.oracle.nodes import Node

RECORDS = 100
WARM_UPS = 20
SECONDS_MAX = 60
_VALUE = b"x" * 100


def transactions(node: Node, scale: Scale) -> Measures:
    """Begin, send, commit, again and again; each commit is waited for."""
    topic = topics.create(node, 1)
    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "transactional.id": topic, "linger.ms": 0}
    )
    producer.init_transactions(30)
    for _ in range(WARM_UPS):
        _transact(producer, topic)
    spent, begin = Spent.now(node.pid), time.monotonic()
    for _ in range(scale.transactions):
        _transact(producer, topic)
    seconds, used = time.monotonic() - begin, spent.since()
    _expect(node, topic, (scale.transactions + WARM_UPS) * RECORDS)
    topics.delete(node, topic)
    return {"cpu": used, "rate": scale.transactions / seconds}


def _expect(node: Node, topic: str, count: int) -> None:
    """A consumer of committed records is given `count` of them.

    One by one: the offsets that `bench.rdkafka` goes by count markers, too.
    """
    settings = {"bootstrap.servers": node.bootstrap, "group.id": topic}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + SECONDS_MAX
    try:
        while count > 0:
            for message in consumer.consume(min(count, 10_000), 1.0):
                if error := message.error():
                    raise ClientFailed(f"the consumer got {error}")
                count -= 1
            if time.monotonic() > deadline:
                raise ClientFailed(f"{count} committed records did not come in {SECONDS_MAX} s")
    finally:
        consumer.close()


def _transact(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    for _ in range(RECORDS):
        producer.produce(topic, _VALUE, partition=0)
    producer.commit_transaction(SECONDS_MAX)


CASES = [
    Case(
        "transactions", "one producer, 100 records per transaction", transactions,
        (cpu(1 / 2),
         Criterion("rate", "throughput", "transactions/s", Kind.RATIO_MIN, 1.0)),
    ),
]  # fmt: skip
