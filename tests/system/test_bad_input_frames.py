"""Bytes that are no requests: each gets Kafka's answer, and nobody else notices."""

from __future__ import annotations

import os
import random
import struct

import pytest

from tests.oracle import wire
from tests.oracle.nodes import Node
from tests.oracle.wire import Wire

UNSUPPORTED_VERSION = 35


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),  # a TLS client's hello
        random.Random(7).randbytes(4096),
    ],
    ids=["http", "tls", "noise"],
)
def test_garbage_closes_the_connection(rude: Wire, data: bytes) -> None:
    rude.send(data)
    assert rude.closed_by_peer()


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 2**31 - 1, 200 * 1024 * 1024])
def test_an_impossible_frame_length_closes_the_connection(rude: Wire, length: int) -> None:
    rude.send(struct.pack(">i", length) + bytes(64))
    assert rude.closed_by_peer()


def test_a_frame_shorter_than_its_header_closes_the_connection(rude: Wire) -> None:
    rude.send(wire.frame(b"\x00\x03\x00"))
    assert rude.closed_by_peer()


@pytest.mark.parametrize("api", [-1, 5, 93, 999, 32767])
def test_an_unknown_api_closes_the_connection(rude: Wire, api: int) -> None:
    rude.send(wire.frame(wire.request(api, 0, bytes(16))))
    assert rude.closed_by_peer()


@pytest.mark.parametrize("version", [-1, 99])
def test_an_unknown_version_closes_the_connection(rude: Wire, version: int) -> None:
    rude.send(wire.frame(wire.request(wire.METADATA, version, bytes(16))))
    assert rude.closed_by_peer()


def test_an_unknown_version_of_api_versions_is_answered_with_version_0(rude: Wire) -> None:
    # Header 2 ends with tagged fields; the body is two empty strings and tagged fields.
    answer = rude.call(wire.API_VERSIONS, 77, b"\x00" + b"\x01\x01\x00")
    assert answer.int16() == UNSUPPORTED_VERSION
    offered = [(answer.int16(), answer.int16(), answer.int16()) for _ in range(answer.int32())]
    assert offered == [(wire.API_VERSIONS, 0, 4)]
    assert answer.at == len(answer.data)
    # The same connection goes on with a version that both know.
    again = rude.call(wire.API_VERSIONS, 0, b"")
    assert again.int16() == 0
    assert again.int32() > 20


@pytest.mark.parametrize("count", [2**31 - 1, 1_000_000])
def test_a_count_beyond_the_frame_closes_the_connection(rude: Wire, count: int) -> None:
    rude.send(wire.frame(wire.request(wire.METADATA, 1, struct.pack(">i", count))))
    assert rude.closed_by_peer()


def test_a_string_longer_than_its_frame_closes_the_connection(rude: Wire) -> None:
    body = struct.pack(">i", 1) + struct.pack(">h", 30_000) + b"short"
    rude.send(wire.frame(wire.request(wire.METADATA, 1, body)))
    assert rude.closed_by_peer()


def test_records_longer_than_their_frame_close_the_connection(rude: Wire) -> None:
    body = wire.produce_body("anything", wire.batch([b"x"]))
    lying = body.replace(struct.pack(">i", 69), struct.pack(">i", 1 << 24))
    assert lying != body, "the length of the records was not found"
    rude.send(wire.frame(wire.request(wire.PRODUCE, wire.PRODUCE_VERSION, lying)))
    assert rude.closed_by_peer()


def test_a_count_of_tagged_fields_beyond_the_frame_closes_the_connection(rude: Wire) -> None:
    # Metadata 9 is flexible: its header ends with a count of tagged fields.
    head = struct.pack(">hhi", wire.METADATA, 9, 1) + wire.string("wire")
    rude.send(wire.frame(head + b"\xff\xff\xff\xff\x07" + bytes(8)))
    assert rude.closed_by_peer()


def test_thousands_of_random_frames_leave_the_broker_standing(
    broker: Node, bystander: object
) -> None:
    """Valid lengths and headers, random bodies: whatever the answer, it is not the end."""
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        with Wire(broker.port, 5) as connection:
            for _ in range(10):
                api, version = chance.randrange(0, 93), chance.randrange(0, 14)
                if api in (0, 4, 5, 6, 7, 20, 43, 57, 64, 80, 81, 82):
                    continue  # no random body may delete topics or unregister the broker
                body = chance.randbytes(chance.randrange(0, 200))
                try:
                    connection.send(wire.frame(wire.request(api, version, body)))
                except ConnectionError:
                    break  # closed after an earlier one, as it should be
