"""Which versions of Produce take which codecs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import GZIP, ZSTD
from tests.unit.server.asking import asking_node


def compressed(codec: int) -> bytes:
    builder = BatchBuilder(compression=codec)
    builder.append(b"key", b"value" * 20, 1_700_000_000_000)
    return bytes(builder.build())


@pytest.mark.parametrize(
    ("codec", "version", "expected"),
    [
        (ZSTD, 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (ZSTD, 7, ErrorCode.NONE),
        (GZIP, 3, ErrorCode.NONE),
    ],
)
async def test_zstd_is_for_clients_whose_consumers_can_read_it(
    tmp_path: Path, codec: int, version: int, expected: ErrorCode
) -> None:
    async with asking_node(tmp_path) as asker:
        await asker.create("t")
        item = PartitionProduceData(index=0, records=memoryview(compressed(codec)))
        request = ProduceRequest(
            acks=1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name="t", partition_data=[item])],
        )
        response = await asker.ask(request, version)
    assert response.responses[0].partition_responses[0].error_code == expected
