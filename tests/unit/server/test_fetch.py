"""Fetch through a whole node: long polls, limits, sessions, and clients that go away."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.server.broker import Broker
from penstock.server.fetch_reading import Reading
from tests.unit.server.asking import Asker, asking, batch, port_of, running_node

FETCH = 1
VERSION = 12


def fetch(*offsets: int, topic: str = "t", size_max: int = 1 << 20, **options: Any) -> FetchRequest:
    return FetchRequest(
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=at, fetch_offset=offset, partition_max_bytes=size_max)
                    for at, offset in enumerate(offsets)
                ],
            )
        ],
        **{"max_bytes": 1 << 24, **options},
    )


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as made:
        yield made


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        await made.create("t", 3)
        yield made


@pytest.fixture
async def reader(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        yield made


def broker_of(node: Node) -> Broker:
    assert node._broker is not None
    return node._broker


async def parked(node: Node, count: int) -> None:
    async with asyncio.timeout(5):
        while broker_of(node).parked_fetches != count:
            await asyncio.sleep(0.005)


def sizes(response: Any) -> list[int]:
    return [len(part.records) for topic in response.responses for part in topic.partitions]


async def test_a_long_poll_ends_when_enough_bytes_came(
    node: Node, asker: Asker, reader: Asker
) -> None:
    data = batch(3)
    reader.send(fetch(0, 0, min_bytes=2 * len(data), max_wait_ms=10_000), VERSION)
    await parked(node, 1)
    await asker.produce("t", data)
    await asyncio.sleep(0.05)
    assert broker_of(node).parked_fetches == 1
    await asker.produce("t", data, index=1)
    assert sizes(await reader.receive(FETCH, VERSION)) == [len(data), len(data)]
    assert broker_of(node).parked_fetches == 0


async def test_a_long_poll_ends_when_its_time_is_over(asker: Asker) -> None:
    begun = asyncio.get_running_loop().time()
    response = await asker.ask(fetch(0, min_bytes=1, max_wait_ms=150), VERSION)
    assert 0.14 <= asyncio.get_running_loop().time() - begun < 2
    assert sizes(response) == [0]
    assert response.error_code == ErrorCode.NONE


async def test_a_long_poll_ends_when_its_topic_is_deleted(
    node: Node, asker: Asker, reader: Asker
) -> None:
    reader.send(fetch(0, min_bytes=1, max_wait_ms=10_000), VERSION)
    await parked(node, 1)
    await asker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), 6)
    response = await reader.receive(FETCH, VERSION)
    part = response.responses[0].partitions[0]
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_client_that_goes_away_leaves_nothing_parked(
    node: Node, asker: Asker, reader: Asker
) -> None:
    reader.send(fetch(0, 0, 0, min_bytes=1, max_wait_ms=60_000), VERSION)
    await parked(node, 1)
    sock = reader._writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reader._writer.transport.abort()
    await parked(node, 0)
    assert all(not each.audience.readers for each in broker_of(node).hosted.values())


@pytest.mark.parametrize("comes", ["more to read", "its time"])
async def test_a_long_poll_that_fails_ends_its_connection_and_does_not_keep_it_waiting(
    node: Node, asker: Asker, reader: Asker, comes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_ms = 60_000 if comes == "more to read" else 200
    reader.send(fetch(0, min_bytes=1, max_wait_ms=wait_ms), VERSION)
    await parked(node, 1)

    def fail(_: Reading) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(Reading, "collect", fail)
    if comes == "more to read":
        await asker.produce("t", batch(3))
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.IncompleteReadError):
            await reader.receive(FETCH, VERSION)
    await parked(node, 0)


async def test_no_more_fetches_park_than_the_limit_allows(node: Node, asker: Asker) -> None:
    broker_of(node).parked_fetches = broker_of(node).limits.parked_fetches_max
    response = await asker.ask(fetch(0, min_bytes=1, max_wait_ms=60_000), VERSION)
    assert sizes(response) == [0]
    broker_of(node).parked_fetches = 0


async def test_no_more_partitions_are_waited_for_than_the_limit_allows(
    node: Node, asker: Asker, reader: Asker
) -> None:
    broker = broker_of(node)
    broker.limits = replace(broker.limits, parked_partitions_max=4)
    reader.send(fetch(0, 0, 0, min_bytes=1, max_wait_ms=60_000), VERSION)
    await parked(node, 1)
    assert broker.parked_partitions == 3
    async with asyncio.timeout(5):
        assert sizes(await asker.ask(fetch(0, 0, min_bytes=1, max_wait_ms=60_000), VERSION)) == [
            0,
            0,
        ]
    reader.close()
    await asker.produce("t", batch())
    await parked(node, 0)
    assert broker.parked_partitions == 0


async def test_an_order_to_answer_is_heeded_even_by_one_who_is_about_to_look(
    node: Node, asker: Asker, reader: Asker
) -> None:
    reader.send(fetch(0, min_bytes=100, max_wait_ms=60_000), VERSION)
    await parked(node, 1)
    (waiter,) = broker_of(node).hosted["t", 0].audience.readers
    waiter.progress(100)  # a hint of which nothing comes
    waiter.progress(0)
    async with asyncio.timeout(5):
        assert sizes(await reader.receive(FETCH, VERSION)) == [0]


async def test_an_error_is_told_at_once_whatever_else_could_be_waited_for(asker: Asker) -> None:
    response = await asker.ask(fetch(0, 99, min_bytes=1, max_wait_ms=60_000), VERSION)
    codes = [part.error_code for part in response.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_the_first_batch_comes_whole_and_the_limit_holds_for_the_rest(asker: Asker) -> None:
    data = batch(50)
    for index in range(3):
        await asker.produce("t", data, index=index)
        await asker.produce("t", data, index=index)
    assert sizes(await asker.ask(fetch(0, 0, 0, max_bytes=1), VERSION)) == [len(data), 0, 0]
    limit = len(data) + 10
    assert sizes(await asker.ask(fetch(0, 0, 0, max_bytes=limit), VERSION)) == [limit, 0, 0]
    assert sizes(await asker.ask(fetch(0, 0, 0, size_max=limit), VERSION)) == [limit] * 3


async def test_a_reader_of_committed_transactions_is_told_that_none_were_aborted(
    asker: Asker,
) -> None:
    await asker.produce("t", batch(3))
    response = await asker.ask(fetch(0, 0, isolation_level=1), VERSION)
    parts = response.responses[0].partitions
    assert [part.aborted_transactions for part in parts] == [[], []]
    assert [part.last_stable_offset for part in parts] == [3, 0]


async def test_a_rotten_transaction_index_hides_the_data_from_readers_of_committed_ones(
    node: Node, asker: Asker, tmp_path: Path
) -> None:
    await asker.produce("t", batch(3))
    (tmp_path / "t-0" / "00000000000000000000.txnindex").write_bytes(b"rotten" * 10)
    broker_of(node).hosted["t", 0].log.has_aborted = True  # as if found at the start
    response = await asker.ask(fetch(0, isolation_level=1), VERSION)
    part = response.responses[0].partitions[0]
    assert (part.error_code, len(part.records)) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert sizes(await asker.ask(fetch(0), VERSION)) == [len(batch(3))]


async def test_a_session_tells_only_news(asker: Asker) -> None:
    data = batch(2)
    await asker.produce("t", data)
    opened = await asker.ask(fetch(0, 0, 0, session_epoch=0), VERSION)
    assert sizes(opened) == [len(data), 0, 0]
    session = {"session_id": opened.session_id}
    nothing_named = fetch(session_epoch=1, **session)
    nothing_named.topics = []
    again = await asker.ask(nothing_named, VERSION)
    assert sizes(again) == [len(data)]  # it still asks from offset 0 on
    read_on = await asker.ask(fetch(2, session_epoch=2, **session), VERSION)
    assert read_on.responses == []
    await asker.produce("t", data, index=1)
    nothing_named.session_epoch = 3
    news = await asker.ask(nothing_named, VERSION)
    assert [part.partition_index for part in news.responses[0].partitions] == [1]


async def test_a_partition_that_fails_in_a_session_is_told_each_time_and_when_it_is_well_again(
    asker: Asker,
) -> None:
    opened = await asker.ask(fetch(5, 0, session_epoch=0), VERSION)
    session = {"session_id": opened.session_id}
    for epoch in (1, 2):
        told = await asker.ask(fetch(5, session_epoch=epoch, **session), VERSION)
        codes = {part.partition_index: part.error_code for part in told.responses[0].partitions}
        assert codes == {0: ErrorCode.OFFSET_OUT_OF_RANGE}
    well = await asker.ask(fetch(0, session_epoch=3, **session), VERSION)
    assert [part.error_code for part in well.responses[0].partitions] == [ErrorCode.NONE]


async def test_large_answers_are_whole_batches_as_the_log_has_them(
    node: Node, asker: Asker
) -> None:
    data = b"".join(batch(200, 200 * number, base_offset=0) for number in range(1))
    for _ in range(400):
        await asker.produce("t", data)
    response = await asker.ask(fetch(0), VERSION)
    part = response.responses[0].partitions[0]
    log = broker_of(node).hosted["t", 0].log
    assert len(part.records) == (1 << 20) // len(data) * len(data)
    assert bytes(part.records) == log.read_bytes(0, 1 << 20)
