"""What delayed records may cost a node: queues, pages and searches that somebody makes absurd."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.cancel_delayed_records import CancelDelayedRecord
from penstock.protocol.generated.describe_delayed_records import (
    DelayedPartitionRequest,
    DelayedTopicRequest,
    DescribeDelayedRecordsRequest,
)
from penstock.server.delays import Delays
from penstock.server.handlers import cancel_delayed_records, describe_delayed_records
from penstock.storage.delay_batches import Row
from penstock.storage.delay_index import DelayIndex
from penstock.storage.delay_reading import Parked

NOW = 1_700_000_000_000


class Led:
    """A partition that this node leads."""

    def __init__(self, earliest: int) -> None:
        self.log = SimpleNamespace(delays=SimpleNamespace(earliest=earliest))
        self.leading, self.offline = True, False


def make_delays() -> Delays:
    loop = SimpleNamespace(call_later=lambda *_: SimpleNamespace(cancel=lambda: None))
    clock = SimpleNamespace(now=lambda: NOW)
    store = SimpleNamespace(context=SimpleNamespace())
    return Delays(cast(Any, SimpleNamespace(loop=loop, clock=clock, store=store)))


def test_a_record_that_is_due_before_all_others_again_and_again_costs_no_memory() -> None:
    delays = make_delays()
    partition = Led(0)
    for sooner in range(100_000):
        partition.log.delays.earliest = NOW + 1_000_000 - sooner
        delays.lead(cast(Any, partition))
    assert len(delays._queue) < 1_000
    assert delays._queue[0][0] == NOW + 1_000_000 - 99_999


def test_partitions_that_are_gone_are_forgotten_before_their_records_are_due() -> None:
    delays = make_delays()
    delays.lead(cast(Any, Led(NOW + 1)))
    for _ in range(10_000):
        partition = Led(NOW + 1_000_000)
        delays.lead(cast(Any, partition))
        delays.lose(cast(Any, partition))
    assert len(delays._queue) < 1_000


class Page:
    """A broker with one partition, in which records with large keys wait."""

    def __init__(self) -> None:
        index = DelayIndex()
        for number in range(100):
            index.waiting.put(NOW + number, number, 0)
        self.partition = SimpleNamespace(log=SimpleNamespace(delays=index))
        self.delays = self
        self.read_bytes = 0

    async def read(self, _: object, rows: list[Row], size_max: int) -> list[Parked]:
        key = b"\x80\x80\x08" + bytes(1 << 16)  # a varint of 65536, and the key
        count = min(len(rows), max(size_max // len(key), 1)) if rows else 0
        self.read_bytes += count * len(key)
        return [Parked(row, key + b"\x01\x00") for row in rows[:count]]


async def test_one_request_for_a_partition_many_times_is_answered_within_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Page()
    monkeypatch.setattr(describe_delayed_records, "find_led", lambda *_: broker.partition)
    monkeypatch.setattr(describe_delayed_records, "refused_topics", lambda *_: frozenset())
    asked = [DelayedPartitionRequest(partition_index=0) for _ in range(2_000)]
    request = DescribeDelayedRecordsRequest(
        topics=[DelayedTopicRequest(name="t", partitions=asked)], records_max=100
    )
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    answer = await describe_delayed_records.handle(cast(Any, broker), cast(Any, None), request)
    beside.cancel()
    pages = answer.topics[0].partitions
    assert broker.read_bytes < 64 << 20
    assert turns > 100, "others had their turn meanwhile"
    assert len(pages[0].records) > 10
    assert pages[-1].error_code == ErrorCode.NONE
    assert (pages[-1].total, pages[-1].has_more) == (100, True), "ask again for what is left out"


def test_records_are_looked_for_in_one_go_where_only_their_offsets_are_named() -> None:
    index = DelayIndex()
    for number in range(20_000):
        index.waiting.put(NOW + number, number, 0)
    asked = [CancelDelayedRecord(offset=at, deliver_at=-1) for at in range(-5_000, 5_000)]
    began = time.perf_counter()
    found = cancel_delayed_records._find(index, asked)
    assert time.perf_counter() - began < 2
    assert [row.id for row in found] == list(range(5_000))
    assert found[7].due == NOW + 7


async def test_a_fault_with_one_partition_does_not_keep_retention_from_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delays = make_delays()
    hosted = [SimpleNamespace(leading=True, log=SimpleNamespace(delays=[1])) for _ in range(2)]
    delays._broker.hosted = cast(Any, dict(enumerate(hosted)))
    moved: list[object] = []

    async def move_all(partition: object) -> None:
        moved.append(partition)
        raise KeyError("our own")

    monkeypatch.setattr(delays, "_move_all", move_all)
    await delays.make_way()
    assert moved == hosted
    assert "our own" in caplog.text
