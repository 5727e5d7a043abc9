"""The cases that start, fill and kill brokers of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from bench.model import Case, Criterion, Kind, Measures, Scale
from bench.process import Spent, memory_mb
from bench.rdkafka import ClientFailed, Payload, Producer
from tests.oracle import wire
from tests.oracle.nodes import Node

TOPIC_PARTITIONS = 100
FEW = 10
BATCH_RECORDS = 100
BATCHES_MIN = 2_000
"""The kernel counts CPU by hundredths of a second."""
ROUNDS = 3
"""Of producing the same: one takes less than half a second, of which noise may be half."""
PAIRS_SECONDS = 60
"""After which one round is enough: Apache Kafka takes a minute for each."""
SECONDS_MAX = 300


def start(node: Node, _: Scale) -> Measures:
    """From exec to the first answered Metadata request, on an empty data directory."""
    node.launch()
    seconds = until_led(node, 0)
    return {"seconds": seconds, "memory": memory_mb(node.pid)}


def partitions(node: Node, scale: Scale) -> Measures:
    """Create many partitions, write to all of them, kill the broker, and wait for it."""
    node.start()
    with wire.Wire(node.port, 60) as client:
        wire.create_topic(client, "few", FEW)
    batches = max(scale.partitions, BATCHES_MIN)

    def to_few(seconds: float = 0.0) -> Sent:
        return _produce(node, ["few"], FEW, batches, seconds)

    few = _cost(to_few)

    topics = [f"many-{number}" for number in range(scale.partitions // TOPIC_PARTITIONS)]
    begin = time.monotonic()
    with wire.Wire(node.port, 120) as client:
        for topic in topics:
            if error := wire.ask_topic(client, topic, TOPIC_PARTITIONS):
                raise ClientFailed(f"{node.name} refused to create {topic} with error {error}")
    creation = until_led(node, scale.partitions + FEW, begin)

    held = _cost(to_few)
    _produce(node, topics, TOPIC_PARTITIONS, batches)  # new files: not counted
    pairs = []
    enough = time.monotonic() + PAIRS_SECONDS
    while len(pairs) < ROUNDS and (not pairs or time.monotonic() < enough):
        many = _produce(node, topics, TOPIC_PARTITIONS, batches)
        pairs.append((many.cpu, to_few(many.seconds).cpu))
    memory = memory_mb(node.pid)
    node.kill()
    node.launch()
    restart = until_led(node, scale.partitions + FEW)
    return {
        "creation": creation,
        "held": held / few,
        "spread": median(many / paced for many, paced in pairs),
        "spread_hurried": median(many for many, _ in pairs) / few,
        "memory": memory,
        "restart": restart,
        "memory_restarted": memory_mb(node.pid),
    }


class Sent(NamedTuple):
    """What some batches took: the broker's CPU, and time."""

    cpu: float
    seconds: float


def _cost(produce: Callable[[], Sent]) -> float:
    """The broker's CPU in the middle of some rounds, after one that is not counted: a broker that
    just started, or has files that are new to it, is not itself."""
    spent = [produce().cpu for _ in range(1 + ROUNDS)]
    return median(spent[1:])


def _produce(node: Node, topics: list[str], each: int, batches: int, seconds: float = 0.0) -> Sent:
    """Send so many batches of one size, dealt out evenly over all partitions, in so many seconds
    or as soon as possible.

    A client that deals over 10,000 partitions takes four times as long, and the broker wakes up for
    each batch where it gets ten at a time otherwise. At the same pace, the difference is the
    broker's own.
    """
    payload = Payload(100, count=BATCH_RECORDS)
    places = [(topic, number) for number in range(each) for topic in topics]
    with Producer(
        node.bootstrap,
        linger_ms="50",
        batch_num_messages=str(BATCH_RECORDS),
        queue_buffering_max_messages="2000000",
    ) as producer:
        for topic in topics:
            producer.send(topic, payload, 1, 0)  # connects, and learns who leads
        producer.flush(SECONDS_MAX)
        spent = Spent.now(node.pid)
        begin = time.monotonic()
        for number in range(batches):
            topic, partition = places[number % len(places)]
            producer.send(topic, payload, BATCH_RECORDS, partition)
            early = begin + seconds * number / batches - time.monotonic()
            if early > 0:
                time.sleep(early)
        producer.flush(SECONDS_MAX)
        return Sent(spent.since(), time.monotonic() - begin)


def until_led(node: Node, count: int, begin: float | None = None) -> float:
    """Seconds from `begin` (or the node's exec) until Metadata tells of `count` led partitions."""
    begin = node.started_at if begin is None else begin
    while time.monotonic() - begin < SECONDS_MAX:
        try:
            with wire.Wire(node.port, 30) as client:
                if _led(client) >= count:
                    return time.monotonic() - begin
        except (ConnectionError, TimeoutError):
            pass  # not listening yet
        if not node.running:
            raise ClientFailed(f"{node.name} ended:\n{node.output()[-2000:]}")
        time.sleep(0.002 if count == 0 else 0.1)
    raise ClientFailed(f"{node.name} led fewer than {count} partitions after {SECONDS_MAX} s")


def _led(client: wire.Wire) -> int:
    topics = wire.metadata(client).values()
    return sum(leader >= 0 for topic in topics for leader in topic.leaders.values())


CASES = [
    Case(
        "start", "process start to first answered Metadata", start,
        (Criterion("seconds", "time", "s", Kind.RATIO_MAX, 1 / 8),),
        own_node=True,
    ),
    Case(
        "partitions", "10,000 partitions", partitions,
        (Criterion("held", "produce CPU to 10 beside 10,000, against 10 alone", "x",
                   Kind.OWN_MAX, 1.2),
         Criterion("spread", "produce CPU over all 10,000, against over 10 at the same pace", "x",
                   Kind.OWN_MAX, 1.2),
         Criterion("spread_hurried", "the same, each as quickly as the client can", "x",
                   Kind.REPORTED, 0.0),
         Criterion("creation", "creation", "s", Kind.RATIO_MAX, 1.0),
         Criterion("restart", "restart after kill -9", "s", Kind.RATIO_MAX, 1.0),
         Criterion("memory", "memory (RSS)", "MB", Kind.RATIO_MAX, 1 / 3),
         Criterion("memory_restarted", "memory (RSS) after restart", "MB", Kind.RATIO_MAX, 1 / 3)),
        own_node=True, warm_ups=0,
    ),
]  # fmt: skip
