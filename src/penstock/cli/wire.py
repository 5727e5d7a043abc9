"""One connection to a broker in the protocol's own words, for what librdkafka's admin cannot say.

librdkafka knows no transactions, no quotas and no tokens, cannot delete a group's offsets, and
takes the states of new groups for unknown ones. So these commands speak through our own codecs.
Every wait has an end, and so has every answer's size.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TypeVar

from penstock.cli.addresses import KNOCK_SECONDS_MAX
from penstock.cli.failure import UNREACHABLE, Failure
from penstock.cli.wire_security import Security
from penstock.protocol.api_keys import PENSTOCKS_OWN_FROM, ApiKey
from penstock.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.headers import read_response_header, write_request_header
from penstock.protocol.message import Message
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import API

ANSWER_SIZE_MAX = 128 * 1024 * 1024
CLIENT_ID = "penstock-cli"

Answer = TypeVar("Answer", bound=Message)

_SIZE = struct.Struct(">i")


class Wire:
    """A connection that asks one thing at a time, in the newest version that both sides know."""

    def __init__(self, host: str, port: int, security: Security, wait: float) -> None:
        """Connect and log in; OSError where nobody takes the connection."""
        self._name = f"{host}:{port}"
        self._wait = wait
        self._number = 0
        self._socket = socket.create_connection((host, port), min(wait, KNOCK_SECONDS_MAX))
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = security.encrypt(self._socket, host)
            # The oldest version is understood by every broker there is.
            known = self._exchange(ApiVersionsRequest(), ApiVersionsResponse, 0).api_keys
            self._known = {one.api_key: (one.min_version, one.max_version) for one in known}
            security.log_in(self.ask)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Message, answer: type[Answer], version_max: int | None = None) -> Answer:
        """What the broker answers; `Failure` if nothing, or nothing that can be read."""
        return self._exchange(request, answer, self._version(request.API_KEY, version_max))

    def knows(self, key: ApiKey) -> bool:
        """Whether the broker serves an API in any version that we write."""
        lowest, highest = self._known.get(key, (0, -1))
        return lowest <= API[key].versions[-1] and highest >= API[key].versions[0]

    def _version(self, key: int, version_max: int | None) -> int:
        spec = API[key]
        if key >= PENSTOCKS_OWN_FROM:
            return spec.versions[-1]  # brokers do not tell of these
        lowest, highest = self._known.get(key, (0, -1))
        version = min(highest, spec.versions[-1])
        if version_max is not None:
            version = min(version, version_max)
        if version < max(lowest, spec.versions[0]):
            raise Failure(
                f"the broker at {self._name} does not know {spec.name} as we do",
                "its release is too old or too new for this command",
            )
        return version

    def _exchange(self, request: Message, answer: type[Answer], version: int) -> Answer:
        spec = API[request.API_KEY]
        self._number += 1
        out = bytearray(4)
        write_request_header(out, spec.key, version, self._number, CLIENT_ID)
        try:
            request.write(version, out)
        except ProtocolError as fault:
            raise Failure(f"the broker at {self._name} is too old for this: {fault}") from None
        _SIZE.pack_into(out, 0, len(out) - 4)
        try:
            deadline = time.monotonic() + self._wait
            self._socket.settimeout(self._wait)
            self._socket.sendall(out)
            frame = self._receive(self._answer_size(deadline), deadline)
            number, at = read_response_header(frame, spec.response_header_version(version))
            if number != self._number:
                raise ProtocolError(f"an answer to request {number}, where {self._number} was sent")
            return answer.read(frame, version, at)[0]
        except TimeoutError:
            raise Failure(
                f"{spec.name}: no answer from {self._name} within {self._wait:g} s",
                "does the cluster want security settings (--profile), or a longer --wait?",
                UNREACHABLE,
            ) from None
        except OSError as error:
            raise Failure(
                f"{spec.name}: the connection to {self._name} broke: {error.strerror or error}",
                "does the cluster want security settings (--profile)?",
                UNREACHABLE,
            ) from None
        except ProtocolError as fault:
            raise Failure(
                f"{self._name} does not answer as a broker: {fault}",
                "is it one? If its listener wants TLS, say so with security.protocol",
            ) from None

    def _answer_size(self, deadline: float) -> int:
        (size,) = _SIZE.unpack(self._receive(4, deadline))
        if not 0 <= size <= ANSWER_SIZE_MAX:
            raise ProtocolError(f"an answer of {size} bytes")
        return int(size)

    def _receive(self, size: int, deadline: float) -> memoryview:
        """Exactly so many bytes. The buffer grows as they come: a size alone costs nothing."""
        data = bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("closed by the broker")
            data += part
        return memoryview(data)
