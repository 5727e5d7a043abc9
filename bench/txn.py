"""The case of transactions: one producer that commits a hundred records at a time."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from bench import topics
from bench.model import Case, Criterion, Kind, Measures, Scale, cpu
from bench.process import Spent
from bench.rdkafka import Consumer
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
    with Consumer(node.bootstrap, isolation_level="read_committed") as consumer:
        everything = (scale.transactions + WARM_UPS) * RECORDS
        consumer.read(topic, [0], everything, SECONDS_MAX)  # or it raises
    topics.delete(node, topic)
    return {"cpu": used, "rate": scale.transactions / seconds}


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
