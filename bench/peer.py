"""A connection that carries any request of the protocol, for thousands of clients in one loop.

A client library brings threads, buffers and a rhythm of its own: fifty of them on two cores would
be what is measured. Here a client costs some tens of microseconds per request, for both brokers.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, cast

from penstock.protocol.headers import read_response_header, write_request_header
from penstock.protocol.message import Message
from penstock.protocol.registry import API

ANSWER_SECONDS_MAX = 60


class Peer(asyncio.Protocol):
    """One connection; answers come in the order of their requests."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: dict[int, tuple[int, int, asyncio.Future[Any]]] = {}
        self._correlation = 0

    @classmethod
    async def connect(cls, port: int) -> Peer:
        _, peer = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return peer

    async def ask(self, request: Message, version: int) -> Any:
        """The answer to a request."""
        assert self._transport is not None
        self._correlation += 1
        out = bytearray(4)
        write_request_header(out, request.API_KEY, version, self._correlation, "bench")
        request.write(version, out)
        struct.pack_into(">i", out, 0, len(out) - 4)
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._correlation] = (request.API_KEY, version, answered)
        self._transport.write(out)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await answered

    def close(self) -> None:
        """Hang up without a word."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name

    def connection_lost(self, exc: Exception | None) -> None:
        for _, _, answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(exc or ConnectionError("the broker hung up"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        at = 0
        while len(self._received) - at >= 4:
            (size,) = struct.unpack_from(">i", self._received, at)
            if len(self._received) - at - 4 < size:
                break
            self._answer(bytes(self._received[at + 4 : at + 4 + size]))
            at += 4 + size
        del self._received[:at]

    def _answer(self, frame: bytes) -> None:
        (correlation,) = struct.unpack_from(">i", frame)
        api_key, version, answered = self._waiting.pop(correlation)
        spec = API[api_key]
        _, at = read_response_header(memoryview(frame), spec.response_header_version(version))
        response, _ = spec.response_class.read(frame, version, at)
        if not answered.done():
            answered.set_result(response)
