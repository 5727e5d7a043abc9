"""Request and response headers: what stands between a frame's length and its message.

The generated `message_headers` are the same facts in class form; these functions are what a
broker and its peers use on every request.
"""

from __future__ import annotations

from struct import Struct

from penstock.protocol.primitives import ProtocolError, cut_short, read_uvarint, skip_tags
from penstock.protocol.registry import API

_HEAD = Struct(">hhih")
_NUMBER = Struct(">i")
_NUMBER_AND_NO_TAGS = Struct(">ix")

_FLEXIBLE_FROM = {key: spec.flexible_from for key, spec in API.items()}


def read_request_header(view: memoryview) -> tuple[int, int, int, str | None, int]:
    """(api key, version, correlation id, client id, where the body starts).

    The version may be one that nobody here knows: that is for the dispatcher to answer. An API
    that does not exist is a ProtocolError, since then even the header's layout is unknown.
    """
    if len(view) < 10:
        raise cut_short("the request header")
    key, version, correlation_id, size = _HEAD.unpack_from(view, 0)
    flexible_from = _FLEXIBLE_FROM.get(key)
    if flexible_from is None:
        raise ProtocolError(f"there is no API with the key {key}")
    at = 10
    client_id = None
    if size >= 0:
        at += size
        if at > len(view):
            raise cut_short("the client id")
        client_id = str(view[10:at], "utf-8", "replace")
    if version >= flexible_from:
        if at >= len(view):
            raise cut_short("the request header")
        tags = view[at]
        at += 1
        if tags:
            at = _skip_header_tags(view, at - 1)
    return key, version, correlation_id, client_id, at


def _skip_header_tags(view: memoryview, at: int) -> int:
    try:
        tags, at = read_uvarint(view, at)
        return skip_tags(view, at, tags)
    except IndexError:
        raise cut_short("the request header") from None


def write_request_header(
    out: bytearray, key: int, version: int, correlation_id: int, client_id: str | None
) -> None:
    """Append the header that `read_request_header` reads."""
    raw = b"" if client_id is None else client_id.encode()
    out += _HEAD.pack(key, version, correlation_id, -1 if client_id is None else len(raw))
    out += raw
    if version >= _FLEXIBLE_FROM[key]:
        out.append(0)


def write_response_header(out: bytearray, header_version: int, correlation_id: int) -> None:
    """Append a response header; `ApiSpec.response_header_version` knows which."""
    if header_version:
        out += _NUMBER_AND_NO_TAGS.pack(correlation_id)
    else:
        out += _NUMBER.pack(correlation_id)


def read_response_header(view: memoryview, header_version: int) -> tuple[int, int]:
    """(correlation id, where the body starts)."""
    if len(view) < 4 + header_version:
        raise cut_short("the response header")
    (correlation_id,) = _NUMBER.unpack_from(view, 0)
    return correlation_id, _skip_header_tags(view, 4) if header_version else 4
