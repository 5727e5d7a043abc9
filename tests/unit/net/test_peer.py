"""A connection to another node: answers, losses, and others that do not speak as nodes do."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.net.peer import Peer, PeerGone, PeerLost, PeerTooOld
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.generated.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.generated.vote import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
)
from penstock.protocol.headers import read_request_header
from penstock.protocol.registry import API

Answer = Callable[[int, int, int], Awaitable[bytes | None]]
"""(api key, version, correlation id) to a frame's content, or None to hang up."""

VERSIONS = {int(ApiKey.API_VERSIONS): (0, 4), int(ApiKey.METADATA): (0, 9)}


def body(correlation_id: int, version: int, response: Any, header: int) -> bytes:
    out = bytearray(struct.pack(">i", correlation_id)) + (b"\0" if header else b"")
    response.write(version, out)
    return bytes(out)


async def properly(api_key: int, version: int, correlation_id: int) -> bytes | None:
    """As a node answers."""
    header = API[api_key].response_header_version(version)
    if api_key == ApiKey.API_VERSIONS:
        known = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in VERSIONS.items()
        ]
        return body(correlation_id, version, ApiVersionsResponse(api_keys=known), header)
    return body(correlation_id, version, MetadataResponse(controller_id=version), header)


@asynccontextmanager
async def node(answer: Answer = properly) -> AsyncIterator[tuple[Peer, list[int]]]:
    """A peer of a server that answers so, and the APIs that the server was asked for."""
    asked: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = memoryview(await reader.readexactly(size))
                api_key, version, correlation_id, _, _ = read_request_header(frame)
                asked.append(api_key)
                content = await answer(api_key, version, correlation_id)
                if content is None:
                    break
                writer.write(struct.pack(">i", len(content)) + content)
        except asyncio.IncompleteReadError:
            pass  # the peer hung up
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    peer = Peer("127.0.0.1", server.sockets[0].getsockname()[1], "test")
    try:
        yield peer, asked
    finally:
        peer.close()
        server.close()


async def test_requests_are_answered_in_the_newest_version_that_both_know() -> None:
    async with node() as (peer, asked):
        assert (await peer.ask(MetadataRequest(), 5)).controller_id == 9
        assert (await peer.ask(MetadataRequest(), 5)).controller_id == 9
        assert asked == [ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.METADATA]


async def test_many_ask_over_one_connection() -> None:
    async with node() as (peer, asked):
        answers = await asyncio.gather(*(peer.ask(MetadataRequest(), 5) for _ in range(50)))
        assert len(answers) == 50
        assert asked.count(int(ApiKey.API_VERSIONS)) == 1


async def test_nobody_there_is_a_loss() -> None:
    async with node() as (peer, _):
        port = peer.port
    with pytest.raises(PeerGone, match="cannot be reached"):
        await Peer("127.0.0.1", port, "test").ask(MetadataRequest(), 5)


async def test_an_api_that_the_other_does_not_serve_is_a_loss() -> None:
    from penstock.protocol.generated.vote import VoteRequest

    async with node() as (peer, _):
        with pytest.raises(PeerLost, match="does not serve VOTE"):
            await peer.ask(VoteRequest(), 5)


async def test_silence_is_a_loss_and_the_next_request_begins_anew() -> None:
    silent = True

    async def answer(api_key: int, version: int, correlation_id: int) -> bytes | None:
        if silent and api_key == ApiKey.METADATA:
            await asyncio.sleep(60)
        return await properly(api_key, version, correlation_id)

    async with node(answer) as (peer, asked):
        with pytest.raises(PeerLost, match="did not answer"):
            await peer.ask(MetadataRequest(), 0.2)
        silent = False
        assert (await peer.ask(MetadataRequest(), 5)).controller_id == 9
        assert asked.count(int(ApiKey.API_VERSIONS)) == 2


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xff" * 12,  # an answer to nothing that was asked
        b"",
    ],
)
async def test_an_answer_that_makes_no_sense_is_a_loss(nonsense: bytes) -> None:
    async def answer(api_key: int, version: int, correlation_id: int) -> bytes | None:
        if api_key == ApiKey.METADATA:
            return nonsense
        return await properly(api_key, version, correlation_id)

    async with node(answer) as (peer, _):
        with pytest.raises(PeerLost, match="does not answer as a node"):
            await peer.ask(MetadataRequest(), 5)


async def test_who_hangs_up_is_lost_for_everybody_who_waits() -> None:
    async def answer(api_key: int, version: int, correlation_id: int) -> bytes | None:
        if api_key == ApiKey.METADATA:
            return None
        return await properly(api_key, version, correlation_id)

    async with node(answer) as (peer, _):
        results = await asyncio.gather(
            *(peer.ask(MetadataRequest(), 5) for _ in range(3)), return_exceptions=True
        )
        assert [type(each) for each in results] == [PeerLost] * 3


async def test_a_closed_peer_asks_nobody() -> None:
    async with node() as (peer, asked):
        peer.close()
        with pytest.raises(PeerLost, match="was closed"):
            await peer.ask(MetadataRequest(), 5)
        assert asked == []


@pytest.mark.parametrize("host", ["x" * 100 + ".example", "a\0b", ""])
async def test_an_address_that_cannot_be_is_a_loss_like_others(host: str) -> None:
    peer = Peer(host, 1, "test")
    with pytest.raises(PeerLost):
        await peer.ask(MetadataRequest(), 5)


async def test_who_is_closed_while_it_connects_keeps_no_connection() -> None:
    async with node() as (peer, _):
        asking = asyncio.create_task(peer.ask(MetadataRequest(), 5))
        await asyncio.sleep(0)
        peer.close()
        with pytest.raises(PeerLost, match="closed"):
            await asking
        assert peer._connection is None


async def test_a_request_that_no_version_of_theirs_can_carry_is_told_apart() -> None:
    async def old(api_key: int, version: int, correlation_id: int) -> bytes | None:
        if api_key != ApiKey.API_VERSIONS:
            return None
        known = [ApiVersion(api_key=ApiKey.VOTE, min_version=0, max_version=1)]
        return body(correlation_id, version, ApiVersionsResponse(api_keys=known), 0)

    part = VoteRequestPartitionData(pre_vote=True)
    topic = VoteRequestTopicData(topic_name="t", partitions=[part])
    async with node(old) as (peer, _):
        with pytest.raises(PeerTooOld):
            await peer.ask(VoteRequest(topics=[topic]), 5)
