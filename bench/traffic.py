"""The cases that send and read records through one long-lived broker."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from functools import partial

from bench import topics
from bench.model import Case, Criterion, Kind, Measures, Scale, cpu, throughput
from bench.process import Spent, memory_mb
from bench.rdkafka import ClientFailed, Consumer, Payload, Producer, SyncProducer
from tests.oracle import apache
from tests.oracle.nodes import Node

PARTITIONS = 4
FLUSHING_PRODUCERS = 16
SECONDS_MAX = 300

# The Java producer's own defaults, spelled out for librdkafka, whose defaults are much larger.
DEFAULT_BATCHES = {"batch_size": "16384", "linger_ms": "5"}
LARGE_BATCHES = {"batch_size": "1000000", "linger_ms": "100"}
SINGLE_RECORDS = {"batch_num_messages": "1", "linger_ms": "0"}


def produce(
    node: Node, scale: Scale, *, size: int, settings: dict[str, str], codec: str = "none"
) -> Measures:
    """Send as fast as the client can; every record acknowledged by all replicas."""
    single = settings is SINGLE_RECORDS
    count = scale.single_records if single else scale.records * 100 // size
    topic = topics.create(node, PARTITIONS)
    payload = Payload(size)
    with Producer(node.bootstrap, compression_type=codec, **settings) as producer:
        producer.send(topic, payload, PARTITIONS)  # connects, and learns who leads
        producer.flush()
        spent, begin = Spent.now(node.pid), time.monotonic()
        producer.send(topic, payload, count)
        producer.flush(SECONDS_MAX)
        seconds = time.monotonic() - begin
        used = spent.since()
        _expect(producer, topic, count + PARTITIONS)
    topics.delete(node, topic)
    return {"cpu": used, "rate": count / seconds}


def produce_with_java(node: Node, scale: Scale) -> Measures:
    """Apache's own producer in its own JVM, which takes much of the machine for itself."""
    topic = topics.create(node, PARTITIONS)
    spent = Spent.now(node.pid)
    ran = subprocess.run(
        [*apache.java(), "org.apache.kafka.tools.ProducerPerformance", "--topic", topic,
         "--num-records", str(scale.records), "--record-size", "100", "--throughput", "-1",
         "--bootstrap-server", node.bootstrap],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=True,
    )  # fmt: skip
    used = spent.since()
    found = re.search(rf"{scale.records} records sent, ([\d.]+) records/sec", ran.stdout)
    if not found:
        raise ClientFailed(f"ProducerPerformance printed {ran.stdout!r}")
    topics.delete(node, topic)
    return {"cpu": used, "rate": float(found[1])}


def consume(node: Node, scale: Scale, *, size: int) -> Measures:
    """Read what was just written: out of the page cache, as consumers that keep up do."""
    count = scale.records * 100 // size
    topic = topics.create(node, PARTITIONS)
    payload = Payload(size)  # kept alive: librdkafka sends from this very memory
    with Producer(node.bootstrap, **LARGE_BATCHES) as producer:
        producer.send(topic, payload, count)
        producer.flush(SECONDS_MAX)
    with Consumer(node.bootstrap) as consumer:
        spent = Spent.now(node.pid)
        seconds = consumer.read(topic, range(PARTITIONS), count, SECONDS_MAX)
        used = spent.since()
    topics.delete(node, topic)
    return {"cpu": used, "rate": count / seconds}


def latency(node: Node, scale: Scale) -> Measures:
    """One record at a time, each waiting for the acknowledgement of the one before."""
    topic = topics.create(node, 1)
    payload = Payload(100, count=1)
    took: list[float] = []
    with SyncProducer(node.bootstrap) as producer:
        for _ in range(scale.sync_records // 10):
            producer.send(topic, payload)
        spent = Spent.now(node.pid)
        for _ in range(scale.sync_records):
            begin = time.perf_counter()
            producer.send(topic, payload)
            took.append(time.perf_counter() - begin)
        used = spent.since()
    topics.delete(node, topic)
    took.sort()
    return {
        "p50": took[len(took) // 2] * 1000,
        "p99": took[len(took) * 99 // 100] * 1000,
        "cpu": used,
    }


def flush(node: Node, scale: Scale) -> Measures:
    """Sixteen producers, each acknowledgement waiting for the disk."""
    topic = topics.create(node, PARTITIONS, {"flush.messages": "1"})
    counts = [0] * FLUSHING_PRODUCERS
    failures: list[Exception] = []
    begun = threading.Barrier(FLUSHING_PRODUCERS)

    def send(number: int) -> None:
        payload, partition = Payload(100, count=1), number % PARTITIONS
        try:
            with SyncProducer(node.bootstrap) as producer:
                producer.send(topic, payload, partition)  # connects
                begun.wait(SECONDS_MAX)
                deadline = time.monotonic() + scale.flush_seconds
                while time.monotonic() < deadline:
                    producer.send(topic, payload, partition)
                    counts[number] += 1
        except (ClientFailed, threading.BrokenBarrierError) as failure:
            failures.append(failure)
            begun.abort()

    threads = [threading.Thread(target=send, args=(each,)) for each in range(FLUSHING_PRODUCERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    topics.delete(node, topic)
    return {"rate": sum(counts) / scale.flush_seconds}


def memory(node: Node, _: Scale) -> Measures:
    """What the broker holds after all the traffic before it."""
    return {"memory": memory_mb(node.pid)}


def _expect(producer: Producer, topic: str, count: int) -> None:
    stored = sum(producer.end_offset(topic, partition) for partition in range(PARTITIONS))
    if stored != count:
        raise ClientFailed(f"{topic} holds {stored} records, but {count} were acknowledged")


def _produce_case(name: str, title: str, bound: float, **options: object) -> Case:
    return Case(
        f"produce-{name}", f"produce {title}", partial(produce, **options),  # type: ignore[arg-type]
        (cpu(bound), throughput()),
    )  # fmt: skip


def _produce_cases() -> list[Case]:
    cases = []
    for batches, settings in (("default", DEFAULT_BATCHES), ("large", LARGE_BATCHES)):
        for size, label in ((100, "100 B"), (1000, "1 KB")):
            for codec in ("none", "lz4"):
                name = f"{batches}-{size}" + ("" if codec == "none" else f"-{codec}")
                title = f"{label}, {batches} batches" + ("" if codec == "none" else f", {codec}")
                cases.append(
                    _produce_case(name, title, 1 / 3, size=size, settings=settings, codec=codec)
                )
    return cases


CASES = [
    *_produce_cases(),
    Case(
        "produce-java", "produce 100 B, Apache's producer with its defaults", produce_with_java,
        (cpu(1 / 3), throughput()),
    ),
    _produce_case(
        "single", "100 B, one record per batch", 1 / 2, size=100, settings=SINGLE_RECORDS
    ),
    Case(
        "memory", "memory after the produce cases", memory,
        (Criterion("memory", "memory (RSS)", "MB", Kind.RATIO_MAX, 1 / 8),), warm_ups=0,
    ),
    Case("consume-100", "consume 100 B", partial(consume, size=100), (cpu(1 / 3), throughput())),
    Case("consume-1000", "consume 1 KB", partial(consume, size=1000), (cpu(1 / 3), throughput())),
    Case(
        "latency", "synchronous produce", latency,
        (Criterion("p50", "latency p50", "ms", Kind.RATIO_MAX, 1.0),
         Criterion("p99", "latency p99", "ms", Kind.RATIO_MAX, 1.0)),
    ),
    Case("flush", "flush.messages=1, 16 producers", flush, (throughput(),)),
]  # fmt: skip
