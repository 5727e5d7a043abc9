"""Produce through a whole node: acknowledgements, refusals, and disks that are slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.server.asking import Asker, asking, asking_node, batch, port_of, running_node

VERSION = 9


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with asking_node(tmp_path) as made:
        await made.create("t")
        yield made


def produce(data: bytes | None, acks: int = -1, topic: str = "t") -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=data)]
            )
        ],
    )


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_batch_is_acknowledged_with_its_offset(asker: Asker, acks: int) -> None:
    for expected in (0, 3, 6):
        answer = await asker.produce("t", batch(3), acks=acks)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, expected)


async def test_a_topic_cannot_want_more_replicas_in_sync_than_it_has(asker: Asker) -> None:
    await asker.create("two", configs={"min.insync.replicas": "2"})
    assert (await asker.produce("two", batch(), acks=-1)).base_offset == 0
    assert (await asker.produce("two", batch(), acks=1)).base_offset == 1


async def test_without_acks_there_is_no_reply_and_the_batch_is_there(asker: Asker) -> None:
    asker.send(produce(batch(3), acks=0), VERSION)
    assert (await asker.produce("t", batch(1))).base_offset == 3


async def test_without_acks_an_error_closes_the_connection(asker: Asker) -> None:
    asker.send(produce(batch(3), acks=0, topic="nowhere"), VERSION)
    with pytest.raises(asyncio.IncompleteReadError):
        await asker.ask(MetadataRequest(topics=[]), 12)


async def test_a_request_without_records_is_refused(asker: Asker) -> None:
    response = await asker.ask(produce(None), VERSION)
    answer = response.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)


async def test_internal_topics_are_not_for_clients(asker: Asker) -> None:
    await asker.create("__consumer_offsets")
    answer = await asker.produce("__consumer_offsets", batch())
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_synced_topics_acknowledge_many_producers_together(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as first:
        await first.create("t", configs={"flush.messages": "1"})

        async def write(count: int) -> list[int]:
            async with asking(port_of(node)) as asker:
                return [(await asker.produce("t", batch())).base_offset for _ in range(count)]

        offsets = await asyncio.gather(*(write(5) for _ in range(8)))
        assert sorted(offset for each in offsets for offset in each) == list(range(40))


async def test_pipelined_batches_are_appended_and_answered_in_order(asker: Asker) -> None:
    await asker.create("synced", configs={"flush.messages": "1"})
    for number in range(20):
        asker.send(produce(batch(1, number), topic="synced"), VERSION)
    answers = [await asker.receive(0, VERSION) for _ in range(20)]
    offsets = [each.responses[0].partition_responses[0].base_offset for each in answers]
    assert offsets == list(range(20))


async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async with asking_node(tmp_path) as asker:
        await asker.create("t")
        for number in range(5):
            await asker.produce("t", batch(2, number))
    async with asking_node(tmp_path) as asker:
        assert (await asker.produce("t", batch())).base_offset == 10
