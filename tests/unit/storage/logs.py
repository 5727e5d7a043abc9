"""Batches and logs for tests of storage."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.model.ids import TopicPartition
from penstock.platform.disk import Disk
from penstock.records.batch import patch_base, read_head
from penstock.records.builder import BatchBuilder
from penstock.storage.context import LogContext
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.recovery import load_log

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
PARTITION = TopicPartition("orders", 0)


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    value: bytes = b"value",
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """A batch as a client sends it: at offset 0, without an epoch."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    for number in range(count):
        builder.append(b"key", value, timestamp + number)
    return bytearray(builder.build())


def put(log: Log, data: bytearray, *, epoch: int = 0, now: int = NOW, at: int | None = None) -> int:
    """Append a batch as a leader does; answers its base offset."""
    base = log.end if at is None else at
    head = read_head(data)
    patch_base(data, 0, base, epoch)
    log.append(memoryview(data), head, base, epoch, now)
    return base


def fill(log: Log, count: int, *, records: int = 1, timestamp: int = NOW) -> None:
    """Append `count` batches, one millisecond apart."""
    for number in range(count):
        put(log, batch(records, timestamp=timestamp + number))


def contents(log: Log, offset: int | None = None) -> list[bytes]:
    """The bytes of every batch."""
    return [bytes(data) for _, data in log.batches(log.start if offset is None else offset)]


def open_log(
    directory: Path | str,
    config: LogConfig | None = None,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    start: int = 0,
    disk: Disk | None = None,
    now: int = NOW,
) -> Log:
    """The log in `directory`, which is made if it is not there."""
    os.makedirs(directory, exist_ok=True)
    return load_log(
        LogContext(disk or Disk()),
        PARTITION,
        TOPIC_ID,
        str(directory),
        config or LogConfig(),
        clean=clean,
        recovery_point=recovery_point,
        start=start,
        now=now,
    )
