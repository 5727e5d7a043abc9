"""The case of delayed messages: a million of them wait, and nobody else notices."""

from __future__ import annotations

import contextlib
import time
from statistics import median

import confluent_kafka

from bench import topics
from bench.lifecycle import until_led
from bench.model import Case, Criterion, Kind, Measures, Scale
from bench.process import Spent, memory_mb
from bench.rdkafka import ClientFailed, Payload, Producer
from penstock.model.config.own import DELAY_ENABLE
from penstock.model.delays import DELIVER_AT
from tests.oracle import apache
from tests.oracle.nodes import ApacheNode, Node, PenstockNode

Headers = list[tuple[str, str | bytes | None]]

PARTITIONS = 4
HOUR_MS = 3_600_000
SECONDS_MAX = 600
WARM_UPS = 2
DEFAULT_BATCHES = {"batch_size": "16384", "linger_ms": "5"}


def pending(node: Node, scale: Scale) -> Measures:
    """Records for tomorrow in one node and none in another like it, which take turns with what is
    for now. Apache Kafka gets the same records, and takes them for any others."""
    count = scale.records // 3
    plain = _beside(node)
    with contextlib.ExitStack() as stack:
        for each in (node, plain):
            each.start()
            stack.callback(each.close)
        config = {DELAY_ENABLE: "true"} if isinstance(node, PenstockNode) else None
        topic = topics.create(node, PARTITIONS, config)
        spent = Spent.now(node.pid)
        _park(node, topic, count)
        parking = spent.since()
        pairs = [
            (_produce(plain, scale.records), _produce(node, scale.records))
            for _ in range(WARM_UPS + scale.rounds)
        ][WARM_UPS:]
        held = memory_mb(node.pid)
        node.kill()
        node.launch()
        restart = until_led(node, PARTITIONS)
        after = memory_mb(node.pid)
        if isinstance(node, PenstockNode):
            _expect_nothing(node, topic)
    return {
        "ratio": median(beside / alone for alone, beside in pairs),
        "memory": held,
        "restart": restart,
        "memory_restarted": after,
        "parking": parking,
    }


def _beside(node: Node) -> Node:
    """A node like the given one, with nothing in it."""
    directory = node.directory / "plain"
    if isinstance(node, ApacheNode):
        return ApacheNode(
            directory, config=node.config, heap=apache.HEAP_SHIPPED, options=apache.JVM_OPTIONS
        )
    return type(node)(directory, config=node.config)


def _park(node: Node, topic: str, count: int) -> None:
    """Records that are due from an hour ahead on, a millisecond after each other."""
    failures: list[object] = []

    def answered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": node.bootstrap, "linger.ms": 100, "batch.size": 500_000}
    )
    first = round(time.time() * 1000) + HOUR_MS
    for number in range(count):
        headers: Headers = [(DELIVER_AT, str(first + number))]
        while True:
            try:
                producer.produce(
                    topic, b"%0100d" % number, headers=headers, partition=number % PARTITIONS,
                    on_delivery=answered,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(SECONDS_MAX) or failures:
        raise ClientFailed(f"delayed records were not taken: {failures[:1]}")


def _produce(node: Node, count: int) -> float:
    """Broker CPU of producing to a topic that knows nothing of delays."""
    topic = topics.create(node, PARTITIONS)
    payload = Payload(100)
    with Producer(node.bootstrap, **DEFAULT_BATCHES) as producer:
        producer.send(topic, payload, PARTITIONS)  # connects, and learns who leads
        producer.flush(SECONDS_MAX)
        spent = Spent.now(node.pid)
        producer.send(topic, payload, count)
        producer.flush(SECONDS_MAX)
        used = spent.since()
    topics.delete(node, topic)
    return used


def _expect_nothing(node: Node, topic: str) -> None:
    """What is due in an hour is not there yet, and a restart does not change that."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "bench", "enable.partition.eof": True}
    )
    places = [confluent_kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)]
    consumer.assign(places)
    for _ in places:
        message = consumer.poll(SECONDS_MAX)
        if message is None or message.error() is None:
            raise ClientFailed(f"a record of {topic} is there an hour too soon")
    consumer.close()


CASES = [
    Case(
        "delayed", "a million messages for later", pending,
        (Criterion("ratio", "broker CPU of producing elsewhere, against without them", "x",
                   Kind.OWN_MAX, 1.05),
         Criterion("memory", "memory (RSS)", "MB", Kind.OWN_MAX, 200),
         Criterion("restart", "restart after kill -9", "s", Kind.OWN_MAX, 10),
         Criterion("memory_restarted", "memory (RSS) after restart", "MB", Kind.OWN_MAX, 200),
         Criterion("parking", "broker CPU of taking them", "s", Kind.REPORTED, 0)),
        own_node=True, warm_ups=0,
    ),
]  # fmt: skip
