"""Nodes to ask, and a client that asks with our own codecs: all versions of all APIs."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.app.node import Node
from penstock.app.settings import settings_for_up
from penstock.model.config.node import NodeConfig
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.headers import read_response_header, write_request_header
from penstock.protocol.message import Message
from penstock.protocol.registry import API
from penstock.records.builder import BatchBuilder

ANSWER_SECONDS_MAX = 20
NOON = 1_700_000_000_000
"""When the records of tests were made; each one a second after the one before."""


def question(request: Message, version: int, correlation_id: int = 7) -> bytes:
    """A request as the frame that carries it."""
    out = bytearray(4)
    write_request_header(out, request.API_KEY, version, correlation_id, "asking")
    request.write(version, out)
    struct.pack_into(">i", out, 0, len(out) - 4)
    return bytes(out)


def batch(count: int = 1, first: int = 0, **options: Any) -> bytes:
    """A batch of `count` records with keys, values and timestamps that count from `first`."""
    builder = BatchBuilder(**options)
    for number in range(first, first + count):
        builder.append(b"key-%d" % number, b"value-%d" % number, NOON + 1000 * number)
    return builder.build()


class Asker:
    """One connection to any broker. A closed one raises IncompleteReadError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, request: Message, version: int) -> None:
        self._writer.write(question(request, version))

    async def receive(self, api_key: int, version: int) -> Any:
        """The next answer, which must end where its frame does."""
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            frame = await self._reader.readexactly(size)
        spec = API[api_key]
        _, at = read_response_header(memoryview(frame), spec.response_header_version(version))
        response, end = spec.response_class.read(frame, version, at)
        assert end == len(frame), f"{len(frame) - end} bytes behind the answer"
        return response

    async def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return await self.receive(request.API_KEY, version)

    async def create(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> bytes:
        """Create a topic and answer its id."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(name=key, value=value)
                        for key, value in (configs or {}).items()
                    ],
                )
            ],
            timeout_ms=10_000,
        )
        made = (await self.ask(request, 7)).topics[0]
        assert made.error_code == ErrorCode.NONE, made
        topic_id: bytes = made.topic_id
        return topic_id

    async def produce(
        self, topic: str, records: bytes, index: int = 0, acks: int = -1, version: int = 9
    ) -> PartitionProduceResponse:
        """Send one batch to one partition."""
        request = ProduceRequest(
            acks=acks,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[PartitionProduceData(index=index, records=records)],
                )
            ],
        )
        response = await self.ask(request, version)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def asking(port: int) -> AsyncIterator[Asker]:
    """A connection to whoever listens on this port of this machine."""
    asker = Asker(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield asker
    finally:
        asker.close()


@asynccontextmanager
async def running_node(
    directory: Path | str, overrides: Mapping[str, str] | None = None
) -> AsyncIterator[Node]:
    """A whole node inside the test's own event loop."""
    settings = settings_for_up(str(directory), "127.0.0.1", 0, overrides or {})
    failures: list[str] = []
    node = Node(NodeConfig.of(settings), lambda: failures.append("the metadata log failed"))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()
    assert not failures


@asynccontextmanager
async def asking_node(
    directory: Path | str, overrides: Mapping[str, str] | None = None
) -> AsyncIterator[Asker]:
    """A node and a connection to it."""
    async with running_node(directory, overrides) as node, asking(port_of(node)) as asker:
        yield asker


def port_of(node: Node) -> int:
    return int(node.address.rpartition(":")[2])
