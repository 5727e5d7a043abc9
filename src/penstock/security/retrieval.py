"""Fetches a small document from https:// or file://, with a bound on its size and on the time.

Plain http:// is for loopback only: what is fetched here decides who is believed. Redirections are
not followed, for the same reason.
"""

from __future__ import annotations

import http.client
import ipaddress
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHUNK = 16 * 1024


class RetrievalFailed(OSError):
    """The document cannot be had; says why, without secrets."""


def check_url(url: str) -> None:
    """ValueError unless documents may be fetched from there."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ValueError("write a file as file:///path/to/it")
        return
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("it has to begin with https:// or file://")
    if parts.port == 0:  # and ValueError if it is no number at all
        raise ValueError("its port is none")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not hold a user name or a password")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError("http:// is only for this machine itself: use https://")


def retrieve(
    url: str,
    bytes_max: int,
    seconds_max: float,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The document. It blocks, for `seconds_max` at the most: for a worker. RetrievalFailed."""
    check_url(url)
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _read_file(unquote(parts.path), bytes_max)
    deadline = time.monotonic() + seconds_max
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(
            host, port, timeout=seconds_max, context=ssl.create_default_context()
        )
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=seconds_max)
    )
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET" if body is None else "POST", path, body, dict(headers or {}))
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            raise RetrievalFailed(f"{host} answers with status {response.status}")
        return _read_answer(response, bytes_max, deadline)
    except (http.client.HTTPException, OSError) as problem:
        if isinstance(problem, RetrievalFailed):
            raise
        raise RetrievalFailed(f"{host} cannot be asked: {type(problem).__name__}") from problem
    finally:
        connection.close()


def _read_file(path: str, bytes_max: int) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as problem:
        raise RetrievalFailed(f"{path} cannot be read: {problem.strerror}") from problem
    if len(data) > bytes_max:
        raise RetrievalFailed(f"{path} has more than {bytes_max} bytes")
    return data


def _read_answer(response: http.client.HTTPResponse, bytes_max: int, deadline: float) -> bytes:
    data = bytearray()
    while chunk := response.read1(_CHUNK):
        data += chunk
        if len(data) > bytes_max:
            raise RetrievalFailed(f"the answer has more than {bytes_max} bytes")
        if time.monotonic() > deadline:
            raise RetrievalFailed("the answer takes too long")
    return bytes(data)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
