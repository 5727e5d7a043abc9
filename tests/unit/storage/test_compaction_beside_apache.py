"""The same log, compacted by Apache Kafka and by Penstock: the same batches must be left."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from penstock.platform.disk import Disk
from penstock.records.batch import BatchHead, read_head
from penstock.records.record import iterate
from penstock.storage.checkpoints import read_offsets
from penstock.storage.compaction import CHECKPOINT
from penstock.storage.txn_index import decode_entries
from tests.oracle.nodes import ApacheNode
from tests.unit.storage.compaction_bench import CONFIG, PARTITION, Bench

pytestmark = [pytest.mark.java, pytest.mark.slow]

SEGMENT_BYTES = 1 << 20  # the least that Kafka takes
NEVER = str(10**12)
SECONDS_MAX = 60
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": NEVER,
    "delete.retention.ms": "0",
}
LOG = str(PARTITION)


def fill(bootstrap: str, seed: int) -> None:
    """Some megabytes from all kinds of producers, with tombstones and aborted transactions."""
    chance = random.Random(seed)
    common = {"bootstrap.servers": bootstrap, "linger.ms": 5}
    plain = [
        Producer({**common, "compression.type": codec, "enable.idempotence": codec != "gzip"})
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ]
    writers = [Producer({**common, "transactional.id": f"t{seed}{n}"}) for n in range(2)]
    for writer in writers:
        writer.init_transactions(SECONDS_MAX)

    def send(producer: Producer, count: int) -> None:
        for _ in range(count):
            value = None if chance.random() < 0.2 else chance.randbytes(chance.randrange(2000))
            key = b"key%d" % chance.randrange(600)
            producer.produce(PARTITION.topic, value, key, headers=[("h", b"x")])
        assert producer.flush(SECONDS_MAX) == 0

    for _ in range(16):
        for producer in plain:
            send(producer, chance.randrange(1, 100))
        for writer in writers:
            writer.begin_transaction()
            send(writer, chance.randrange(1, 25))
            if chance.random() < 0.5:
                writer.commit_transaction(SECONDS_MAX)
            else:
                writer.abort_transaction(SECONDS_MAX)


def set_lag(admin: AdminClient, milliseconds: str) -> None:
    entry = ConfigEntry(
        "min.compaction.lag.ms", milliseconds, incremental_operation=AlterConfigOpType.SET
    )
    topic = ConfigResource(ConfigResource.Type.TOPIC, PARTITION.topic, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([topic]).values():
        done.result(SECONDS_MAX)


def cleaned_to(data: Path) -> int:
    return read_offsets(Disk(), str(data), CHECKPOINT).get(PARTITION, 0)


def wait_until_cleaned(data: Path, before: int) -> int:
    deadline = time.monotonic() + SECONDS_MAX
    while (end := cleaned_to(data)) <= before:
        assert time.monotonic() < deadline, "Apache's cleaner did not come round"
        time.sleep(0.1)
    return end


def left_in(directory: Path, end: int) -> list[tuple[BatchHead, list[tuple[object, ...]]]]:
    """Every batch below `end`, without what depends on the moment and on the codec's mood."""
    found = []
    for path in sorted(directory.glob("*.log")):
        if int(path.stem) >= end:
            break
        view, at = memoryview(path.read_bytes()), 0
        while at < len(view):
            head = read_head(view, at)
            rows = [
                (r.offset, r.timestamp, r.key and bytes(r.key), r.value and bytes(r.value))
                for r in iterate(view, at)
            ]
            at += head.size
            head = head._replace(crc=0, length=0)
            found.append((head._replace(base_timestamp=0) if head.delete_horizon else head, rows))
    return found


def aborted_in(directory: Path, end: int) -> list[object]:
    paths = [path for path in sorted(directory.glob("*.txnindex")) if int(path.stem) < end]
    return [txn for path in paths for txn in decode_entries(path.read_bytes())]


def test_what_we_keep_is_what_apache_keeps(tmp_path: Path) -> None:
    config = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}
    with ApacheNode(tmp_path / "apache", config=config) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for made in admin.create_topics(
            [NewTopic(PARTITION.topic, 1, 1, config=SETTINGS)]
        ).values():
            made.result(SECONDS_MAX)
        for number in range(2):  # the second round meets tombstones and markers that may go
            fill(node.bootstrap, number)
            node.stop()
            root = tmp_path / f"ours{number}"
            shutil.copytree(node.data / LOG, root / LOG)
            shutil.copy(node.data / CHECKPOINT, root)
            before = cleaned_to(node.data)
            node.start()
            set_lag(admin, "0")
            end = wait_until_cleaned(node.data, before)
            set_lag(admin, NEVER)

            settings = CONFIG._replace(segment_bytes=SEGMENT_BYTES, delete_retention_ms=0)
            bench = Bench(str(root), settings)
            bench.now = int(time.time() * 1000)
            done = bench.compact()
            assert done is not None and (done.first_dirty, done.end) == (before, end)
            theirs, ours = left_in(node.data / LOG, end), left_in(root / LOG, end)
            assert len(ours) > 50
            assert ours == theirs
            assert aborted_in(root / LOG, end) == aborted_in(node.data / LOG, end)
            assert sorted(p for p in os.listdir(root / LOG) if p.endswith(".log")) == sorted(
                p for p in os.listdir(node.data / LOG) if p.endswith(".log")
            )
