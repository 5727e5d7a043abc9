from __future__ import annotations

import pytest

from penstock.protocol import headers
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.message_headers import RequestHeader, ResponseHeader
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import API

EVERY_VERSION = [(spec.key, version) for spec in API.values() for version in spec.codec_versions]


@pytest.mark.parametrize("client_id", ["me", "", None])
def test_the_fast_reader_agrees_with_the_generated_header(client_id: str | None) -> None:
    for key, version in EVERY_VERSION:
        header = RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=7, client_id=client_id
        )
        raw = header.encode(API[key].request_header_version(version))
        out = bytearray()
        headers.write_request_header(out, key, version, 7, client_id)
        assert out == raw
        read = headers.read_request_header(memoryview(raw + b"body"))
        assert read == (key, version, 7, client_id, len(raw))


def test_response_headers_agree_with_the_generated_one() -> None:
    for header_version in (0, 1):
        out = bytearray()
        headers.write_response_header(out, header_version, 77)
        assert out == ResponseHeader(correlation_id=77).encode(header_version)
        assert headers.read_response_header(memoryview(out), header_version) == (77, len(out))


def test_tags_in_a_header_are_skipped() -> None:
    raw = b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x00" + b"\x01\x63\x02xy" + b"body"
    assert headers.read_request_header(memoryview(raw))[4] == 15


def test_a_version_of_the_future_still_has_a_readable_header() -> None:
    out = bytearray()
    headers.write_request_header(out, ApiKey.API_VERSIONS, 99, 5, "new")
    assert headers.read_request_header(memoryview(out)) == (18, 99, 5, "new", len(out))


def test_api_versions_is_always_answered_with_the_oldest_header() -> None:
    spec = API[ApiKey.API_VERSIONS]
    assert {spec.response_header_version(version) for version in (0, 3, 4, 99)} == {0}


def test_an_api_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ProtocolError, match="4242"):
        headers.read_request_header(memoryview(b"\x10\x92" + bytes(20)))


def test_a_header_that_is_cut_short_is_refused_wherever_the_cut_is() -> None:
    whole = b"\x00\x12\x00\x03\x00\x00\x00\x01\x00\x02me" + b"\x02\x63\x02xy\x64\x00"
    assert headers.read_request_header(memoryview(whole))[4] == len(whole)
    for end in range(len(whole)):
        with pytest.raises(ProtocolError):
            headers.read_request_header(memoryview(whole[:end]))
    for end in range(5):
        with pytest.raises(ProtocolError):
            headers.read_response_header(memoryview(b"\x00\x00\x00\x01\x00"[:end]), 1)
