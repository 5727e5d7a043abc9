"""The cases of three nodes: what replication costs, and how long a death is felt."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import Producer as Idempotent
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.model import Case, Criterion, Kind, Measures, Scale
from bench.process import cpu_seconds, memory_mb
from bench.rdkafka import ClientFailed, Payload, Producer
from tests.oracle import apache
from tests.oracle.nodes import ApacheNode, Node
from tests.oracle.trio import Trio

PARTITIONS = 6
SECONDS_MAX = 300
DEFAULT_BATCHES = {"batch_size": "16384", "linger_ms": "5"}
WARM_UPS = 2
"""A JVM compiles while it warms up: without these Kafka would pay for it in the result."""


@contextlib.contextmanager
def three(node: Node) -> Iterator[Trio]:
    """Three nodes of the kind that was given, which is not started itself."""

    def make(directory: Path) -> Node:
        if isinstance(node, ApacheNode):
            return ApacheNode(
                directory, config=node.config, heap=apache.HEAP_SHIPPED, options=apache.JVM_OPTIONS
            )
        return type(node)(directory, config=node.config)

    with Trio(node.directory / "trio", [make] * 3) as trio:
        yield trio


def create(trio: Trio, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": trio.bootstrap})
    new = NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([new], operation_timeout=60)[topic].result(SECONDS_MAX)
    _until(lambda: _led(admin, [topic]) == partitions, f"{topic} is led")


def _led(admin: AdminClient, topics: list[str]) -> int:
    found = admin.list_topics(timeout=60).topics
    return sum(
        each.leader >= 0
        for topic in topics
        if topic in found
        for each in found[topic].partitions.values()
    )


def _until(is_so: Any, what: str, seconds_max: float = SECONDS_MAX, pause: float = 0.05) -> float:
    begin = time.monotonic()
    while not is_so():
        if time.monotonic() - begin > seconds_max:
            raise ClientFailed(f"not within {seconds_max} s: {what}")
        time.sleep(pause)
    return time.monotonic() - begin


def replicated(node: Node, scale: Scale) -> Measures:
    """Produce with acks=all to three replicas, then one record at a time at a steady rate."""
    with three(node) as trio:
        create(trio, "replicated", PARTITIONS)
        measures: Measures = {}
        for name, size in (("small", 100), ("large", 1000)):
            count = scale.records * 100 // size // 2
            for _ in range(WARM_UPS):
                _produce(trio, size, count)
            used, seconds = _produce(trio, size, count)
            megabytes = count * size / 1e6
            measures[f"cpu_{name}"] = used / megabytes
            measures[f"rate_{name}"] = megabytes / seconds
        _steady(trio, scale.sync_records // 4)
        measures |= _steady(trio, scale.sync_records)
        measures["memory"] = sum(memory_mb(pid) for pid in trio.pids)
        return measures


def _produce(trio: Trio, size: int, count: int) -> tuple[float, float]:
    payload = Payload(size)
    with Producer(trio.bootstrap, acks="all", **DEFAULT_BATCHES) as producer:
        producer.send("replicated", payload, PARTITIONS)
        producer.flush()
        before, begin = sum(map(cpu_seconds, trio.pids)), time.monotonic()
        producer.send("replicated", payload, count)
        producer.flush(SECONDS_MAX)
        seconds = time.monotonic() - begin
        return sum(map(cpu_seconds, trio.pids)) - before, seconds


def _steady(trio: Trio, count: int) -> Measures:
    """Latency at 200 records a second, each with its own acknowledgement by all."""
    producer = Idempotent({"bootstrap.servers": trio.bootstrap, "acks": "all", "linger.ms": 0})
    took: list[float] = []

    def on_ack(sent: float, error: object, _message: object) -> None:
        if error is not None:
            raise ClientFailed(f"a record was refused: {error}")
        took.append(time.perf_counter() - sent)

    began = time.perf_counter()
    for number in range(count):
        while (left := began + number / 200 - time.perf_counter()) > 0:
            producer.poll(left)
        now = time.perf_counter()
        producer.produce("replicated", bytes(100), partition=0, on_delivery=partial(on_ack, now))
        producer.poll(0)
    if producer.flush(60):
        raise ClientFailed("records were not acknowledged")
    took.sort()
    return {"p50": took[len(took) // 2] * 1000, "p99": took[len(took) * 99 // 100] * 1000}


def leader_dies(node: Node, _: Scale) -> Measures:
    """kill -9 of a partition's leader: how long until the next record is acknowledged."""
    with three(node) as trio:
        create(trio, "led", 1)
        admin = AdminClient({"bootstrap.servers": trio.bootstrap})
        controller = trio.active_controller()
        leader = admin.list_topics("led", timeout=30).topics["led"].partitions[0].leader
        if leader == controller:
            # Not two deaths at once: move the partition to a broker that only leads partitions.
            trio.nodes[leader].stop()
            _until(lambda: _leader(trio) not in (leader, -1), "another leads")
            trio.nodes[leader].start()
            trio.wait_for(set(trio.nodes))
            _until(lambda: len(_in_sync(trio)) == 3, "all are in sync")
            leader = _leader(trio)
        return {"seconds": _unacknowledged(trio, lambda: trio.nodes[leader].kill())}


def _leader(trio: Trio) -> int:
    return _partition(trio).leader  # type: ignore[no-any-return]


def _in_sync(trio: Trio) -> list[int]:
    return list(_partition(trio).isrs)


def _partition(trio: Trio) -> Any:
    admin = AdminClient({"bootstrap.servers": trio.bootstrap})
    return admin.list_topics("led", timeout=30).topics["led"].partitions[0]


def _unacknowledged(trio: Trio, fault: Any) -> float:
    """Seconds from a fault to the acknowledgement of a record that was sent after it."""
    producer = Idempotent(
        {
            "bootstrap.servers": trio.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": 20,
            "log_level": 0,
        }
    )
    acknowledged: list[int] = []

    def on_ack(number: int, error: object, _: object) -> None:
        if error is None:
            acknowledged.append(number)

    for number in range(50):
        producer.produce("led", b"x", partition=0, on_delivery=partial(on_ack, number))
        producer.poll(0.01)
    producer.flush(30)
    fault()
    begin = time.monotonic()
    number = 1000
    while not any(each >= 1000 for each in acknowledged):
        producer.produce("led", b"x", partition=0, on_delivery=partial(on_ack, number))
        number += 1
        producer.poll(0.01)
        if time.monotonic() - begin > SECONDS_MAX:
            raise ClientFailed("nothing is acknowledged any more")
    return time.monotonic() - begin


def controller_dies(node: Node, _: Scale) -> Measures:
    """kill -9 of the active controller: how long until a topic can be created."""
    with three(node) as trio:
        create(trio, "before", 1)
        dead = trio.active_controller()
        others = ",".join(each.bootstrap for number, each in trio.nodes.items() if number != dead)
        trio.nodes[dead].kill()
        begin = time.monotonic()
        admin = AdminClient({"bootstrap.servers": others, "log_level": 0})
        for attempt in range(10_000):
            made = admin.create_topics([NewTopic(f"after-{attempt}", 1, 2)], request_timeout=5)
            with contextlib.suppress(KafkaException):
                made[f"after-{attempt}"].result(10)
                return {"seconds": time.monotonic() - begin}
            if time.monotonic() - begin > SECONDS_MAX:
                break
            time.sleep(0.05)
        raise ClientFailed("no topic could be created any more")


def many_fail_over(node: Node, scale: Scale) -> Measures:
    """5,000 partitions of three replicas: how long until all are led when one broker dies."""
    topics = [f"many-{number}" for number in range(max(1, scale.partitions // 200))]
    with three(node) as trio:
        admin = AdminClient({"bootstrap.servers": trio.bootstrap})
        for topic in topics:
            made = admin.create_topics([NewTopic(topic, 100, 3)], operation_timeout=120)
            made[topic].result(SECONDS_MAX)
        count = len(topics) * 100
        _until(lambda: _led(admin, topics) == count, "all are led")
        _until(lambda: _whole(admin, topics), "all replicas are in sync", pause=0.5)
        controller = trio.active_controller()
        victim = next(number for number in trio.nodes if number != controller)
        trio.nodes[victim].kill()
        others = ",".join(each.bootstrap for n, each in trio.nodes.items() if n != victim)
        survivor = AdminClient({"bootstrap.servers": others, "log_level": 0})
        return {
            "seconds": _until(
                lambda: _led_by_others(survivor, topics, victim) == count, "all are led again"
            ),
            "memory": sum(memory_mb(pid) for pid in trio.pids),
        }


def _led_by_others(admin: AdminClient, topics: list[str], dead: int) -> int:
    found = admin.list_topics(timeout=60).topics
    return sum(
        each.leader >= 0 and each.leader != dead
        for topic in topics
        if topic in found  # a node just started does not know them all yet
        for each in found[topic].partitions.values()
    )


def _whole(admin: AdminClient, topics: list[str]) -> bool:
    found = admin.list_topics(timeout=60).topics
    return all(len(each.isrs) == 3 for topic in topics for each in found[topic].partitions.values())


def more_cores(node: Node, scale: Scale) -> Measures:
    """Producing to two brokers of one machine, against one: `penstock up --brokers N`.

    The brokers have to be what limits it, also where they and their client share two cores: so the
    topic is one for which they compress what the client sends as it is.
    """
    if isinstance(node, ApacheNode):
        return {}  # a JVM has threads: there is nothing to compare
    rates = {}
    for brokers in (1, 2):
        rates[brokers] = max(_rate_of(node, brokers, scale) for _ in range(2))
    return {"one": rates[1], "two": rates[2], "rise": rates[2] / rates[1]}


def _rate_of(node: Node, brokers: int, scale: Scale) -> float:
    """MB/s that a producer brings in, records of 100 B in default batches."""
    data = node.directory / f"company-{brokers}-{time.monotonic_ns()}"
    data.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "up", "--data", str(data), "--port", "0",
         "--brokers", str(brokers)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=node.environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().rpartition(" ")[2].strip()
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topic = NewTopic("t", 8, 1, config={"compression.type": "gzip"})
        admin.create_topics([topic])["t"].result(SECONDS_MAX)
        _until(lambda: _led(admin, ["t"]) == 8, "the topic is led")
        payload, count = Payload(100), scale.records // 5
        with Producer(bootstrap, **DEFAULT_BATCHES) as producer:
            producer.send("t", payload, 8)
            producer.flush()
            begin = time.monotonic()
            producer.send("t", payload, count)
            producer.flush(SECONDS_MAX)
            return count * 100 / 1e6 / (time.monotonic() - begin)
    finally:
        process.terminate()
        process.wait(60)


CASES = [
    Case(
        "cluster-produce", "three nodes, RF 3, acks=all", replicated,
        (Criterion("cpu_small", "CPU of all, 100 B", "s/MB", Kind.RATIO_MAX, 1 / 2),
         Criterion("cpu_large", "CPU of all, 1 KB", "s/MB", Kind.RATIO_MAX, 1 / 2),
         Criterion("rate_small", "throughput, 100 B", "MB/s", Kind.RATIO_MIN, 1.0),
         Criterion("rate_large", "throughput, 1 KB", "MB/s", Kind.RATIO_MIN, 1.0),
         Criterion("p50", "latency p50 at 200/s", "ms", Kind.RATIO_MAX, 1.0),
         Criterion("p99", "latency p99 at 200/s", "ms", Kind.RATIO_MAX, 1.0),
         Criterion("memory", "memory (RSS) of all", "MB", Kind.RATIO_MAX, 1 / 6)),
        own_node=True, warm_ups=0,
    ),
    Case(
        "cluster-leader-dies", "kill -9 of a leader", leader_dies,
        (Criterion("seconds", "until the next acknowledgement", "s", Kind.RATIO_MAX, 1.0),),
        own_node=True, warm_ups=0,
    ),
    Case(
        "cluster-controller-dies", "kill -9 of the active controller", controller_dies,
        (Criterion("seconds", "until a topic is created", "s", Kind.RATIO_MAX, 1.0),),
        own_node=True, warm_ups=0,
    ),
    Case(
        "cluster-partitions", "5,000 partitions, RF 3, one broker dies", many_fail_over,
        (Criterion("seconds", "until all are led", "s", Kind.RATIO_MAX, 1.0),
         Criterion("memory", "memory (RSS) of the other two", "MB", Kind.RATIO_MAX, 1 / 6)),
        own_node=True, warm_ups=0,
    ),
    Case(
        "cluster-cores", "one machine, two brokers against one", more_cores,
        (Criterion("rise", "throughput where brokers compress", "x", Kind.OWN_MIN, 1.0),),
        own_node=True, warm_ups=0,
    ),
]  # fmt: skip
