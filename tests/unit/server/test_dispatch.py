"""What happens before a handler: headers, versions, malformed bodies, unknown APIs."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import PENSTOCKS_OWN_FROM, ApiKey
from penstock.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.generated.init_producer_id import InitProducerIdRequest
from penstock.protocol.generated.metadata import MetadataRequest
from penstock.protocol.registry import API
from penstock.server.apis import CONTROLLER_HANDLERS, HANDLERS
from tests.unit.server.asking import Asker, asking, port_of, question, running_node

API_VERSIONS = 18


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with running_node(tmp_path) as made:
        yield made


@pytest.fixture
async def asker(node: Node) -> AsyncIterator[Asker]:
    async with asking(port_of(node)) as made:
        yield made


async def is_closed(asker: Asker) -> bool:
    async with asyncio.timeout(5):
        try:
            return await asker._reader.read(1) == b""
        except ConnectionResetError:
            return True


def send_frame(asker: Asker, body: bytes) -> None:
    asker._writer.write(struct.pack(">i", len(body)) + body)


@pytest.mark.parametrize("key", sorted(HANDLERS))
def test_every_advertised_api_has_a_handler_and_a_codec(key: int) -> None:
    assert callable(HANDLERS[key]())
    spec = API[key]
    assert "broker" in spec.listeners
    assert spec.request_class.API_KEY == spec.response_class.API_KEY == key


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_tells_what_is_built(asker: Asker, version: int) -> None:
    request = ApiVersionsRequest()
    if version >= 3:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1.0")
    response = await asker.ask(request, version)
    assert response.error_code == ErrorCode.NONE
    told = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    shown = [key for key in HANDLERS if key < PENSTOCKS_OWN_FROM]
    assert told == {key: (API[key].versions[0], API[key].versions[-1]) for key in shown}


async def test_a_controllers_listener_tells_only_what_it_serves_itself(node: Node) -> None:
    (listener,) = [each for each in node._listeners if each.name == "CONTROLLER"]
    async with asking(listener.port) as asker:
        response = await asker.ask(ApiVersionsRequest(), 0)
        assert {each.api_key for each in response.api_keys} == set(CONTROLLER_HANDLERS)
        assert all("controller" in API[key].listeners for key in CONTROLLER_HANDLERS)
        assert ApiKey.FETCH in CONTROLLER_HANDLERS  # of the metadata log, that is
        assert CONTROLLER_HANDLERS[ApiKey.FETCH] is not HANDLERS[ApiKey.FETCH]


async def test_an_api_versions_request_from_the_future_is_answered_in_version_0(
    asker: Asker,
) -> None:
    body = bytearray(question(ApiVersionsRequest(), 4))[4:]
    struct.pack_into(">h", body, 2, 99)
    send_frame(asker, bytes(body))
    response = await asker.receive(API_VERSIONS, 0)
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [each.api_key for each in response.api_keys] == [API_VERSIONS]
    assert await asker.ask(ApiVersionsRequest(), 0)  # and the connection lives


async def test_a_nameless_client_is_refused_without_being_cut_off(asker: Asker) -> None:
    request = ApiVersionsRequest(client_software_name="", client_software_version="1.0")
    assert (await asker.ask(request, 3)).error_code == ErrorCode.INVALID_REQUEST
    assert await asker.ask(ApiVersionsRequest(), 0)


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(9999, 0), (-1, 0), (4, 0), (3, 99), (3, -1), (0, 2), (22, 6), (62, 0)],
    ids=[
        "no such API",
        "negative",
        "without versions",
        "too new",
        "negative version",
        "Produce 2",
        "an unstable version",
        "a controller's",
    ],
)
async def test_what_is_not_advertised_closes_the_connection_and_no_other(
    node: Node, asker: Asker, api_key: int, version: int
) -> None:
    async with asking(port_of(node)) as bystander:
        send_frame(asker, struct.pack(">hhih", api_key, version, 1, -1) + bytes(20))
        assert await is_closed(asker)
        assert await bystander.ask(MetadataRequest(topics=[]), 12)


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 12, 14])
async def test_a_request_that_is_cut_short_closes_the_connection(asker: Asker, cut: int) -> None:
    whole = question(MetadataRequest(topics=None), 12)[4:]
    send_frame(asker, whole[:cut])
    assert await is_closed(asker)


async def test_counts_beyond_the_frame_close_the_connection(asker: Asker) -> None:
    header = struct.pack(">hhih", 3, 1, 1, -1)
    send_frame(asker, header + struct.pack(">i", 2_000_000_000))
    assert await is_closed(asker)


async def test_versions_end_at_the_codec(asker: Asker) -> None:
    for version in range(6):
        response = await asker.ask(InitProducerIdRequest(transactional_id=None), version)
        assert response.error_code == ErrorCode.NONE
        assert response.producer_epoch == 0
