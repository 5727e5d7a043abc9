"""Apache Kafka is the judge: its tools over our files, our store over its files, and back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.platform.disk import Disk
from penstock.records.record import iterate
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import read_meta
from penstock.storage.store import LogStore
from tests.oracle.nodes import ApacheNode, Node
from tests.oracle.tools import Tools
from tests.unit.storage.logs import NOW, TOPIC_ID, batch, put

pytestmark = pytest.mark.java

FAULTS = re.compile(r"mismatch|corrupt|isvalid: false|exception|not found|Found timestamp", re.I)
SMALL = LogConfig(segment_bytes=20_000, index_interval_bytes=300)


def open_store(data: Path) -> LogStore:
    meta = read_meta(Disk(), str(data)) or {"node.id": "1", "cluster.id": "c"}
    node_id, cluster_id = int(meta["node.id"]), meta["cluster.id"]
    store = LogStore([str(data)], node_id=node_id, cluster_id=cluster_id)
    store.open(lambda _: SMALL)
    return store


@pytest.mark.parametrize("crash", [False, True], ids=["closed", "crashed"])
def test_apaches_dump_finds_no_fault_in_our_files(
    tmp_path: Path, tools: Tools, crash: bool
) -> None:
    store = open_store(tmp_path)
    log = store.create("orders", 0, TOPIC_ID, SMALL)
    for number in range(1000):
        idempotent = {"producer_id": 9, "producer_epoch": 1, "sequence": number * 2}
        put(log, batch(2, timestamp=NOW + number % 90, **idempotent))  # type: ignore[arg-type]
    if crash:
        store.close(clean=False)
        store = open_store(tmp_path)
    store.close()
    directory = tmp_path / "orders-0"

    def dump(pattern: str, *options: str) -> str:
        paths = sorted(map(str, directory.glob(pattern)))
        assert len(paths) > 2, "there should be several segments"
        out = tools.check("DumpLogSegments", "--files", ",".join(paths), *options)
        assert not FAULTS.search(out), out
        return out

    assert len(re.findall(r"^\| offset: ", dump("*.log", "--deep-iteration"), re.M)) == 2000
    assert "passed sanity check" in dump("*.index", "--index-sanity-check")
    assert "passed sanity check" in dump("*.timeindex", "--index-sanity-check")
    dump("*.index", "--verify-index-only")
    dump("*.timeindex", "--verify-index-only")
    assert "producerId: 9 producerEpoch: 1" in dump("*.snapshot")


def produce(node: Node, values: range) -> None:
    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "batch.size": 500}
    )
    for number in values:
        producer.produce("shared", b"%d" % number)
    assert producer.flush(30) == 0


def consume(node: Node, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition("shared", 0, 0)])
    messages = consumer.consume(count, timeout=30)
    consumer.close()
    return [int(message.value() or b"-1") for message in messages]


@pytest.mark.parametrize("ended", ["stop", "kill"])
def test_a_directory_goes_from_apache_kafka_to_us_and_back(tmp_path: Path, ended: str) -> None:
    node = ApacheNode(tmp_path)
    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        settings = {"segment.bytes": "1048576", "index.interval.bytes": "300"}
        admin.create_topics([NewTopic("shared", 1, 1, config=settings)])["shared"].result(30)
        produce(node, range(3000))
        getattr(node, ended)()

    store = open_store(node.data)
    log = store.get("shared", 0)
    assert log is not None and (log.start, log.end) == (0, 3000)
    records = [record for head, data in log.batches(0) for record in iterate(data, head=head)]
    assert [int(bytes(record.value or b"")) for record in records] == list(range(3000))
    assert len(log.producers) == 1
    assert log.epochs.entries == [(0, 0)]
    for number in range(3000, 4000):
        put(log, batch(value=b"%d" % number), epoch=0)
    assert len(log.segments) > 1
    log.high_watermark = log.end
    store.close(clean=ended == "stop")

    with node:
        assert consume(node, 4000) == list(range(4000))
        produce(node, range(4000, 4100))
        assert consume(node, 4100) == list(range(4100))
    assert node.complaints() == []
