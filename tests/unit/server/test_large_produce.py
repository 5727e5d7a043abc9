"""Produce requests that are large for other reasons than their records."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.primitives import ProtocolError, write_uvarint
from penstock.server.dispatch import FRAME_BYTES_MAX
from penstock.server.large_produce import check_outline
from tests.unit.server.asking import asking, port_of, running_node

VERSIONS = (3, 8, 9, 12, 13)
RECORDS = bytes(5000)


def many(topics: int, partitions: int, records: bytes | None) -> ProduceRequest:
    return ProduceRequest(
        transactional_id="t",
        acks=1,
        topic_data=[
            TopicProduceData(
                name="x" * 10,
                topic_id=b"x" * 16,
                partition_data=[
                    PartitionProduceData(index=index, records=records)
                    for index in range(partitions)
                ],
            )
            for _ in range(topics)
        ],
    )


def outline(request: ProduceRequest, version: int, bytes_max: int) -> None:
    for topic in request.topic_data:
        if version >= 13:
            topic.name = ""
        else:
            topic.topic_id = bytes(16)
    check_outline(memoryview(request.encode(version)), version, 0, bytes_max)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_do_not_count(version: int) -> None:
    outline(many(20, 2, RECORDS), version, 1500)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("topics", "partitions"), [(200, 0), (200, 1), (1, 500)])
@pytest.mark.parametrize("records", [None, b"", RECORDS])
def test_topics_and_partitions_do(
    version: int, topics: int, partitions: int, records: bytes | None
) -> None:
    with pytest.raises(ProtocolError, match="much else"):
        outline(many(topics, partitions, records), version, 1500)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_outline_beyond_the_frame_is_no_request(version: int) -> None:
    whole = many(1, 1, None).encode(version) if version < 13 else b"\0" * 7 + b"\x02"
    for end in range(len(whole) - 1):
        with pytest.raises(ProtocolError):
            check_outline(memoryview(whole[:end]), version, 0, 1500)


async def test_a_frame_full_of_empty_topics_closes_its_connection_and_no_other(
    tmp_path: Path,
) -> None:
    count = FRAME_BYTES_MAX // 3 + 1000
    body = bytearray(struct.pack(">hhihxxhi", 0, 9, 1, -1, 1, 1000))
    write_uvarint(body, count + 1)
    body += b"\x01\x01\x00" * count + b"\x00"
    async with running_node(tmp_path) as node, asking(port_of(node)) as bystander:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(node))
        writer.write(struct.pack(">i", len(body)) + body)
        async with asyncio.timeout(20):
            assert await reader.read(1) == b""
        writer.close()
        assert await bystander.ask(MetadataRequest(topics=[]), 12)


async def test_a_large_batch_is_taken(tmp_path: Path) -> None:
    from penstock.records.builder import BatchBuilder

    builder = BatchBuilder()
    builder.append(None, bytes(FRAME_BYTES_MAX + 1000), 1)
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        await asker.create("t", configs={"max.message.bytes": "50000000"})
        for version in (3, 9):
            answer = await asker.produce("t", builder.build(), version=version)
            assert answer.error_code == ErrorCode.NONE
