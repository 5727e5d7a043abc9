"""Offsets, deletions, directories and pages, without an oracle at hand (see test_same_answers)."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.protocol.generated import describe_topic_partitions as pages
from penstock.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.generated.describe_cluster import DescribeClusterRequest
from penstock.protocol.generated.describe_log_dirs import DescribeLogDirsRequest
from penstock.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.records.batch import HEAD_SIZE, seal
from penstock.server.broker import Broker
from tests.unit.server.asking import NOON, Asker, asking, batch, port_of, running_node


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    directories = f"{tmp_path}/one,{tmp_path}/two"
    async with running_node(
        tmp_path, {"log.dirs": directories, "max.request.partition.size.limit": "5"}
    ) as made:
        yield made


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        yield made


def broker_of(node: Node) -> Broker:
    assert node._broker is not None
    return node._broker


async def ask_offset(asker: Asker, timestamp: int) -> Any:
    """What ListOffsets answers for partition 0 of topic t."""
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
        ],
    )
    return (await asker.ask(request, 11)).topics[0].partitions[0]


async def offset_at(asker: Asker, timestamp: int) -> tuple[int, int]:
    """Offset and timestamp of what it finds."""
    found = await ask_offset(asker, timestamp)
    assert found.error_code == ErrorCode.NONE
    return found.offset, found.timestamp


async def delete_below(asker: Asker, offset: int) -> Any:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=1000,
    )
    return (await asker.ask(request, 2)).topics[0].partitions[0]


async def test_offsets_are_found_by_time(asker: Asker) -> None:
    await asker.create("t")
    for number in (0, 3, 6):
        await asker.produce("t", batch(3, number))
    assert await offset_at(asker, -2) == (0, -1)
    assert await offset_at(asker, -1) == (9, -1)
    assert await offset_at(asker, -3) == (8, NOON + 8000)
    assert await offset_at(asker, NOON + 3500) == (4, NOON + 4000)
    assert await offset_at(asker, NOON + 9000) == (-1, -1)


@pytest.mark.parametrize("compression", [0, 1])
async def test_a_batch_whose_records_are_garbage_fails_the_search_by_time_and_no_more(
    asker: Asker, compression: int
) -> None:
    await asker.create("t")
    data = bytearray(batch(3, compression=compression))
    data[HEAD_SIZE:] = b"\xff" * (len(data) - HEAD_SIZE)
    seal(data, 0, len(data))
    assert (await asker.produce("t", bytes(data))).error_code == ErrorCode.NONE
    answer = await ask_offset(asker, NOON)
    assert (answer.error_code, answer.offset) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert await offset_at(asker, -1) == (3, -1)


async def test_deleted_records_are_gone_for_readers_and_for_searches(asker: Asker) -> None:
    await asker.create("t")
    await asker.produce("t", batch(9))
    assert (await delete_below(asker, 4)).low_watermark == 4
    assert await offset_at(asker, -2) == (4, -1)
    assert await offset_at(asker, 0) == (4, NOON + 4000)
    refused = await delete_below(asker, 10)
    assert (refused.error_code, refused.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert (await delete_below(asker, -1)).low_watermark == 9


async def test_pages_of_topics_join_to_the_whole(asker: Asker) -> None:
    counts = {"a": 3, "b": 7, "c": 1, "d": 5, "e": 4}
    for name, count in counts.items():
        await asker.create(name, count)
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(20):
        response = await asker.ask(pages.DescribeTopicPartitionsRequest(cursor=cursor), 0)
        page = [
            (topic.name, part.partition_index)
            for topic in response.topics
            for part in topic.partitions
        ]
        assert len(page) <= 5
        seen += page
        if response.next_cursor is None:
            break
        cursor = pages.DescribeTopicPartitionsRequestCursor(
            topic_name=response.next_cursor.topic_name,
            partition_index=response.next_cursor.partition_index,
        )
    assert seen == [(name, index) for name, count in counts.items() for index in range(count)]


async def test_directories_are_described_with_what_lies_in_them(node: Node, asker: Asker) -> None:
    await asker.create("t", 4)
    await asker.produce("t", batch(5), index=2)
    response = await asker.ask(DescribeLogDirsRequest(topics=None), 5)
    assert [Path(each.log_dir).name for each in response.results] == ["one", "two"]
    for each in response.results:
        assert (each.error_code, each.is_cordoned) == (ErrorCode.NONE, False)
        assert 0 < each.usable_bytes <= each.total_bytes
    sizes = {
        part.partition_index: part.partition_size
        for each in response.results
        for topic in each.topics
        for part in topic.partitions
    }
    assert sizes == {0: 0, 1: 0, 2: len(batch(5)), 3: 0}
    assert all(len(each.topics[0].partitions) == 2 for each in response.results)


async def test_a_failed_directory_takes_its_own_partitions_and_no_others(
    node: Node, asker: Asker
) -> None:
    await asker.create("t", 4)
    store = broker_of(node).store
    failed = store.directories[1]
    lost = {log.partition for log in store.logs.values() if log.directory.startswith(failed.path)}
    store.fail_directory(failed, OSError(errno.EIO, "the disk is gone"))
    response = await asker.ask(DescribeLogDirsRequest(topics=None), 5)
    codes = [each.error_code for each in response.results]
    assert codes == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
    for index in range(4):
        answer = await asker.produce("t", batch(), index=index)
        expected = ErrorCode.KAFKA_STORAGE_ERROR if index in lost else ErrorCode.NONE
        assert answer.error_code == expected


async def test_each_kind_of_listener_describes_its_own_kind_of_node(
    node: Node, asker: Asker
) -> None:
    brokers = await asker.ask(DescribeClusterRequest(), 2)
    assert (brokers.error_code, brokers.endpoint_type) == (ErrorCode.NONE, 1)
    assert [each.broker_id for each in brokers.brokers] == [1]
    mismatch = await asker.ask(DescribeClusterRequest(endpoint_type=2), 2)
    assert mismatch.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    controller = next(each for each in node._listeners if each.name == "CONTROLLER")
    async with asking(controller.port) as other:
        controllers = await other.ask(DescribeClusterRequest(endpoint_type=2), 2)
        assert (controllers.error_code, controllers.endpoint_type) == (ErrorCode.NONE, 2)
        mismatch = await other.ask(DescribeClusterRequest(), 2)
        assert mismatch.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        old = await other.ask(DescribeClusterRequest(), 0)
        assert old.error_code == ErrorCode.INVALID_REQUEST
