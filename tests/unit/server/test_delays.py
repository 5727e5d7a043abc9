"""Delayed records through a whole node: delivered, listed page by page, cancelled, and moved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.model.delays import DELIVER_AT
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.protocol.api_keys import PENSTOCKS_OWN_FROM
from penstock.protocol.generated.api_versions import ApiVersionsRequest
from penstock.protocol.generated.cancel_delayed_records import (
    CancelDelayedPartition,
    CancelDelayedRecord,
    CancelDelayedRecordsRequest,
    CancelDelayedTopic,
)
from penstock.protocol.generated.describe_delayed_records import (
    DelayedPartitionRequest,
    DelayedTopicRequest,
    DescribeDelayedRecordsRequest,
)
from penstock.records.builder import BatchBuilder
from penstock.records.record import iterate
from penstock.replica.partition import Partition
from penstock.server import delays
from penstock.storage.retention import retain
from tests.unit.server.asking import Asker, asking, port_of, running_node
from tests.unit.server.rights_scene import guarded_node, topic

ENABLED = {"penstock.delivery.delay.enable": "true"}
HOUR = 3_600_000


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as made:
        yield made


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        await made.create("t", configs=ENABLED)
        yield made


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(*due: int, padding: bytes = b"") -> bytes:
    builder = BatchBuilder()
    for number, at in enumerate(due):
        headers: list[tuple[str, bytes | None]] = [(DELIVER_AT, str(at).encode())]
        builder.append(b"key-%d" % number, b"value-%d" % number + padding, now_ms(), headers)
    return builder.build()


def describe(
    after: tuple[int, int] = (-1, -1), name: str = "t", **options: Any
) -> DescribeDelayedRecordsRequest:
    asked = DelayedPartitionRequest(partition_index=0, after_time=after[0], after_offset=after[1])
    return DescribeDelayedRecordsRequest(
        topics=[DelayedTopicRequest(name=name, partitions=[asked])], **options
    )


def cancel(*records: tuple[int, int], name: str = "t") -> CancelDelayedRecordsRequest:
    asked = [CancelDelayedRecord(offset=offset, deliver_at=at) for offset, at in records]
    return CancelDelayedRecordsRequest(
        topics=[
            CancelDelayedTopic(
                name=name,
                partitions=[CancelDelayedPartition(partition_index=0, records=asked)],
            )
        ],
        timeout_ms=5_000,
    )


async def page(asker: Asker, request: DescribeDelayedRecordsRequest) -> Any:
    return (await asker.ask(request, 0)).topics[0].partitions[0]


async def cancelled(asker: Asker, request: CancelDelayedRecordsRequest) -> Any:
    return (await asker.ask(request, 0)).topics[0].partitions[0]


def values(partition: Partition) -> list[bytes]:
    return [
        bytes(record.value or b"")
        for head, data in partition.log.batches(partition.log.start)
        if not head.is_control
        for record in iterate(bytes(data), head=head)
    ]


async def until_values(partition: Partition, count: int) -> list[bytes]:
    async with asyncio.timeout(20):
        while len(found := values(partition)) < count:
            await asyncio.sleep(0.01)
    return found


async def test_pages_go_on_where_the_last_one_ended(asker: Asker) -> None:
    start = now_ms() + HOUR
    due = [start + 5, start, start + 5, start + 1, start + 9]
    assert (await asker.produce("t", batch(*due))).base_offset == 1
    seen: list[tuple[int, int]] = []
    after = (-1, -1)
    for _ in range(3):
        found = await page(asker, describe(after, records_max=2))
        assert (found.error_code, found.total) == (ErrorCode.NONE, 5)
        seen += [(one.deliver_at - start, one.offset) for one in found.records]
        after = (found.records[-1].deliver_at, found.records[-1].offset)
    assert seen == [(0, 2), (1, 4), (5, 1), (5, 3), (9, 5)]
    assert not found.has_more
    window = await page(asker, describe(from_time=start + 1, before_time=start + 9))
    assert [one.offset for one in window.records] == [4, 1, 3]
    one = window.records[0]
    assert (bytes(one.key), one.value_size) == (b"key-3", 7)


async def test_what_is_cancelled_is_answered_and_what_is_not_there_is_not(asker: Asker) -> None:
    start = now_ms() + HOUR
    await asker.produce("t", batch(start, start + 1, start + 2))
    answer = await cancelled(asker, cancel((1, start), (2, -1), (3, start + 7), (77, -1), (1, -1)))
    assert (answer.error_code, answer.offsets) == (ErrorCode.NONE, [1, 2])
    assert [one.offset for one in (await page(asker, describe())).records] == [3]
    assert (await cancelled(asker, cancel((1, start)))).offsets == []


async def test_partitions_that_are_not_there_or_have_nothing_are_said_to_be(asker: Asker) -> None:
    assert (await page(asker, describe(name="absent"))).error_code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert (await cancelled(asker, cancel((1, -1), name="absent"))).error_code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    nothing = await page(asker, describe())
    assert (nothing.error_code, nothing.total, nothing.records) == (ErrorCode.NONE, 0, [])
    many = cancel(*((offset, -1) for offset in range(10_001)))
    assert (await cancelled(asker, many)).error_code == ErrorCode.INVALID_REQUEST


async def test_own_requests_are_not_shown_to_clients(asker: Asker) -> None:
    shown = (await asker.ask(ApiVersionsRequest(), 0)).api_keys
    assert shown
    assert max(one.api_key for one in shown) < PENSTOCKS_OWN_FROM


async def test_it_takes_a_right_to_the_topic(tmp_path: Path) -> None:
    async with guarded_node(tmp_path) as node:
        await node.create("mine")
        await node.may(topic("mine", Operation.DESCRIBE))
        for ask in (page(node.asker, describe(name="mine")),
                    cancelled(node.asker, cancel((1, -1), name="mine"))):  # fmt: skip
            assert (await ask).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await node.may(topic("mine", Operation.READ))
        assert (await page(node.asker, describe(name="mine"))).error_code == ErrorCode.NONE
        denied = await cancelled(node.asker, cancel((1, -1), name="mine"))
        assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await node.may(topic("mine", Operation.WRITE))
        allowed = await cancelled(node.asker, cancel((1, -1), name="mine"))
        assert allowed.error_code == ErrorCode.NONE


async def test_a_burst_is_delivered_in_slices_and_in_order(
    node: Node, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delays, "SLICE_MAX", 32)
    start = now_ms() + 300
    await asker.produce("t", batch(*(start + number % 7 for number in range(500))))
    partition = node.broker.hosted["t", 0]
    found = await until_values(partition, 500)
    order = sorted(range(500), key=lambda number: (number % 7, number))
    assert found == [b"value-%d" % number for number in order]
    heads = [head for head, _ in partition.log.batches(0) if not head.is_control]
    assert max(head.count for head in heads) <= 128


async def test_a_sooner_record_does_not_wait_for_a_later_one(node: Node, asker: Asker) -> None:
    await asker.produce("t", batch(now_ms() + HOUR))
    await asker.produce("t", batch(now_ms() + 200))
    await until_values(node.broker.hosted["t", 0], 1)


async def test_what_cannot_be_delivered_now_is_tried_again(
    node: Node, asker: Asker, caplog: pytest.LogCaptureFixture
) -> None:
    partition = node.broker.hosted["t", 0]
    await asker.produce("t", batch(now_ms() + 100))
    partition.under_min = True
    async with asyncio.timeout(20):
        while "NOT_ENOUGH_REPLICAS" not in caplog.text:
            await asyncio.sleep(0.01)
    assert values(partition) == []
    partition.under_min = False
    await until_values(partition, 1)


async def test_what_was_due_while_the_node_was_down_is_delivered_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path / "data") as node, asking(port_of(node)) as asker:
        await asker.create("t", configs=ENABLED)
        await asker.produce("t", batch(now_ms() + 700, now_ms() + HOUR))
    await asyncio.sleep(0.8)
    async with running_node(tmp_path / "data") as node:
        assert await until_values(node.broker.hosted["t", 0], 1) == [b"value-0"]


async def test_what_waits_makes_way_for_retention_if_that_frees_more_than_it_writes(
    node: Node, asker: Asker
) -> None:
    await asker.create("r", configs={**ENABLED, "retention.ms": "1000"})
    partition = node.broker.hosted["r", 0]
    builder = BatchBuilder()
    builder.append(None, bytes(50_000), 1_000)
    await asker.produce("r", builder.build())
    await asker.produce("r", batch(now_ms() + HOUR, padding=bytes(5_000)))
    log = partition.log
    log.roll(now_ms())
    log.segments[0].max_timestamp = 1_000  # long ago
    await node.broker.delays.make_way()
    assert retain(log, now_ms()) == 1
    assert log.start == log.segments[0].base > 0
    assert [one.offset for one in (await page(asker, describe(name="r"))).records] == [2]

    log.roll(now_ms())
    log.segments[0].max_timestamp = 1_000
    before = log.end
    await node.broker.delays.make_way()
    assert log.end == before, "all that is in the segment waits: moving it frees nothing"
    assert retain(log, now_ms()) == 0
