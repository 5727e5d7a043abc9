"""The cases that send and read records through one long-lived broker."""

from __future__ import annotations

import asyncio
import tempfile
import time
from functools import partial

from bench import bare, java, topics
from bench.floor import sending
from bench.model import Case, Criterion, Kind, Measures, Scale, cpu, throughput
from bench.pages import back_free_pages
from bench.peer import Peer
from bench.process import Spent, memory_mb
from bench.rdkafka import Client, ClientFailed, Consumer, Payload, Producer, SyncProducer
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.records.builder import BatchBuilder
from tests.oracle.nodes import Node

PARTITIONS = bare.PARTITIONS
FLUSHING_PRODUCERS = 16
READERS = 3
"""One after the other: what one of them costs is near the kernel's steps of 10 ms."""
SECONDS_MAX = 300
PRODUCE_BY_NAME = 12
"""The last version that names topics by their names."""

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
        used, seconds = _send(producer, topic, payload, count, node.pid)
        _expect(producer, topic, count + PARTITIONS)
    topics.delete(node, topic)
    with (
        bare.running() as (port, pid),
        Producer(f"127.0.0.1:{port}", compression_type=codec, **settings) as producer,
    ):
        least, _ = _send(producer, topic, payload, count, pid)
    return {"cpu": used, "rate": count / seconds, "least": least}


def _send(
    producer: Producer, topic: str, payload: Payload, count: int, pid: int
) -> tuple[float, float]:
    """What it took: CPU seconds of the process `pid`, and seconds until all was acknowledged."""
    producer.send(topic, payload, PARTITIONS)  # connects, and learns who leads
    producer.flush()
    back_free_pages(tempfile.gettempdir())  # what was ready a second ago may be the host's again
    spent, begin = Spent.now(pid), time.monotonic()
    producer.send(topic, payload, count)
    producer.flush(SECONDS_MAX)
    return spent.since(), time.monotonic() - begin


def produce_with_java(node: Node, scale: Scale) -> Measures:
    """Apache's own producer in its own JVM, which takes much of the machine for itself."""
    topic = topics.create(node, PARTITIONS)
    spent = Spent.now(node.pid)
    rate = java.produce(node.bootstrap, topic, scale.records)
    used = spent.since()
    topics.delete(node, topic)
    with bare.running() as (port, pid):
        spent = Spent.now(pid)
        java.produce(f"127.0.0.1:{port}", topic, scale.records)
        least = spent.since()
    return {"cpu": used, "rate": rate, "least": least}


def consume(node: Node, scale: Scale, *, size: int) -> Measures:
    """Read what was just written: out of the page cache, as consumers that keep up do."""
    count = scale.records * 100 // size
    topic = topics.create(node, PARTITIONS)
    payload = Payload(size)  # kept alive: librdkafka sends from this very memory
    with Producer(node.bootstrap, **LARGE_BATCHES) as producer:
        producer.send(topic, payload, count)
        producer.flush(SECONDS_MAX)
    used = seconds = 0.0
    for _ in range(READERS):
        with Consumer(node.bootstrap) as consumer:
            spent = Spent.now(node.pid)
            seconds += consumer.read(topic, range(PARTITIONS), count, SECONDS_MAX)
            used += spent.since()
    segments = sorted(node.data.glob(f"{topic}-*/*.log"))
    least = sorted(sending(segments) for _ in range(READERS))[READERS // 2]
    topics.delete(node, topic)
    return {"cpu": used / READERS, "rate": READERS * count / seconds, "least": least}


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
    sent = asyncio.run(_send_and_wait(node.port, topic, scale.flush_seconds))
    with Consumer(node.bootstrap) as consumer:
        _expect(consumer, topic, sent)
    topics.delete(node, topic)
    return {"rate": sent / scale.flush_seconds}


async def _send_and_wait(port: int, topic: str, seconds: float) -> int:
    """How many batches all producers together had acknowledged."""
    peers = [await Peer.connect(port) for _ in range(FLUSHING_PRODUCERS)]
    deadline = time.monotonic() + seconds

    async def send(peer: Peer, partition: int) -> int:
        batch = BatchBuilder()
        batch.append(None, bytes(100), int(time.time() * 1000))
        data = PartitionProduceData(index=partition, records=batch.build())
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        sent = 0
        while time.monotonic() < deadline:
            answer = await peer.ask(request, PRODUCE_BY_NAME)
            error = answer.responses[0].partition_responses[0].error_code
            if error:
                raise ClientFailed(f"a batch was refused with error {error}")
            sent += 1
        return sent

    try:
        sends = (send(peer, number % PARTITIONS) for number, peer in enumerate(peers))
        return sum(await asyncio.gather(*sends))
    finally:
        for peer in peers:
            peer.close()


def memory(node: Node, _: Scale) -> Measures:
    """What the broker holds after all the traffic before it."""
    return {"memory": memory_mb(node.pid)}


def _expect(client: Client, topic: str, count: int) -> None:
    stored = sum(client.end_offset(topic, partition) for partition in range(PARTITIONS))
    if stored != count:
        raise ClientFailed(f"{topic} holds {stored} records, but {count} were acknowledged")


BARE = Criterion("least", "CPU of a bare loop that stores and answers the same", "s", Kind.BARE, 0)


def _produce_case(name: str, title: str, bound: float, **options: object) -> Case:
    return Case(
        f"produce-{name}", f"produce {title}", partial(produce, **options),  # type: ignore[arg-type]
        (cpu(bound), throughput(), BARE),
    )  # fmt: skip


def _consume_case(size: int, label: str) -> Case:
    return Case(
        f"consume-{size}", f"consume {label}", partial(consume, size=size),
        (cpu(1 / 3), throughput(),
         Criterion("least", "CPU of a bare sendfile of the same files", "s", Kind.BARE, 0)),
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
        (cpu(1 / 3), throughput(), BARE),
    ),
    _produce_case(
        "single", "100 B, one record per batch", 1 / 2, size=100, settings=SINGLE_RECORDS
    ),
    Case(
        "memory", "memory after the produce cases", memory,
        (Criterion("memory", "memory (RSS)", "MB", Kind.RATIO_MAX, 1 / 8),), warm_ups=0,
    ),
    _consume_case(100, "100 B"),
    _consume_case(1000, "1 KB"),
    Case(
        "latency", "synchronous produce", latency,
        (Criterion("p50", "latency p50", "ms", Kind.RATIO_MAX, 1.0),
         Criterion("p99", "latency p99", "ms", Kind.RATIO_MAX, 1.0)),
    ),
    Case("flush", "flush.messages=1, 16 producers", flush, (throughput(),)),
]  # fmt: skip
