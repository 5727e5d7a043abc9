"""What the codec costs per message, in microseconds, beside `kio`.

    python -m bench.codec

The same bytes on both sides: kio reads what Penstock wrote, and both write it again. The figure is
the best of many interleaved rounds, since whatever else runs on a machine only ever adds time.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter

from penstock.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from penstock.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.protocol.message import Message

ROUNDS = 40
ROUND_SECONDS = 0.01
TOPIC = "payments.authorised"
TOPIC_ID = bytes(range(16))


@dataclass
class Case:
    """One message to read or to write, and the most it may cost in microseconds."""

    what: str
    verb: str
    message: Message
    version: int
    target: float | None = None


def cases() -> list[Case]:
    return [
        Case("ProduceResponse, 1 partition", "write", produce_response(), 12, 6),
        Case("MetadataResponse, 100 partitions", "write", metadata_response(100), 12, 250),
        Case("FetchResponse, 1 partition", "write", fetch_response(), 12),
        Case("ProduceRequest, 1 partition", "read", produce_request(), 12),
        Case("FetchRequest, 1 partition", "read", fetch_request(1), 12),
        Case("FetchRequest, 100 partitions", "read", fetch_request(100), 12),
        Case("MetadataResponse, 100 partitions", "read", metadata_response(100), 12),
    ]


def produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(index=3, base_offset=123_456, log_start_offset=0)
    topic = TopicProduceResponse(name=TOPIC, partition_responses=[partition])
    return ProduceResponse(responses=[topic])


def metadata_response(count: int) -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=index % 3,
            leader_epoch=7,
            replica_nodes=[0, 1, 2],
            isr_nodes=[0, 1, 2],
        )
        for index in range(count)
    ]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host="broker.example", port=9092)
            for node in range(3)
        ],
        cluster_id="cluster",
        controller_id=0,
        topics=[MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)],
    )


def fetch_response() -> FetchResponse:
    partition = PartitionData(partition_index=3, high_watermark=9, records=bytes(1000))
    return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[partition])])


def produce_request() -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=memoryview(bytes(1000)))
    topic = TopicProduceData(name=TOPIC, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def fetch_request(count: int) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=1000, partition_max_bytes=1 << 20)
        for index in range(count)
    ]
    topic = FetchTopic(topic=TOPIC, partitions=partitions)
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])


def ours(case: Case) -> Callable[[], object]:
    message, version = case.message, case.version
    if case.verb == "write":
        return lambda: message.write(version, bytearray())
    frame, read = memoryview(message.encode(version)), type(message).read
    return lambda: read(frame, version)


def theirs(case: Case) -> Callable[[], object] | None:
    """The same work by kio; None if it is not installed, or cannot read the message."""
    try:
        serial = import_module("kio.serial")
    except ImportError:
        return None
    name = type(case.message).__name__
    side = "request" if name.endswith("Request") else "response"
    api = name.removesuffix(side.capitalize()).lower()
    cls = getattr(import_module(f"kio.schema.{api}.v{case.version}.{side}"), name)
    raw = case.message.encode(case.version)
    read, write = serial.entity_reader(cls), serial.entity_writer(cls)
    if case.verb == "read":
        return lambda: read(raw, 0)
    entity, _ = read(raw, 0)
    again = io.BytesIO()
    write(again, entity)
    assert again.getvalue() == raw, f"kio writes {name} in another way"
    return lambda: write(io.BytesIO(), entity)


def _seconds(work: Callable[[], object], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        work()
    return (perf_counter() - start) / count


def _best(works: list[Callable[[], object] | None]) -> list[float | None]:
    """Microseconds of each, over rounds that alternate between them."""
    counts = [0 if work is None else int(ROUND_SECONDS / _seconds(work, 20)) + 1 for work in works]
    best: list[float | None] = [None] * len(works)
    for _ in range(ROUNDS):
        for place, (work, count) in enumerate(zip(works, counts, strict=True)):
            if work is not None:
                spent = _seconds(work, count) * 1e6
                before = best[place]
                best[place] = spent if before is None else min(before, spent)
    return best


def measure() -> Iterator[tuple[Case, float, float | None]]:
    """Each case with our microseconds and kio's."""
    for case in cases():
        mine, kio = _best([ours(case), theirs(case)])
        assert mine is not None
        yield case, mine, kio


def main() -> int:
    print("| message | | penstock, us | kio, us | kio / penstock | target, us |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    missed = 0
    for case, mine, kio in measure():
        if case.target is not None and mine > case.target:
            missed += 1
        other, ratio = ("-", "-") if kio is None else (f"{kio:.1f}", f"{kio / mine:.1f}")
        target = "" if case.target is None else f"< {case.target:g}"
        print(f"| {case.what} | {case.verb} | {mine:.2f} | {other} | {ratio} | {target} |")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
