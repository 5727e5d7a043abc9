"""A client so plain that it can say anything, right or wrong, over a raw socket.

It knows a handful of old, non-flexible request versions, written here by hand: enough to ask
whether a broker lives, and to send it what no client library would.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from typing import NamedTuple

import crc32c

PRODUCE, FETCH, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 3, 18, 19, 20
PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 7, 4, 1
CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION = 2, 1

_REQUEST_HEAD = struct.Struct(">hhi")
_BATCH_HEAD = struct.Struct(">qiibIhiqqqhii")
_CRC_FROM = 21  # a batch's CRC covers all that follows the CRC


class Closed(ConnectionError):
    """The broker closed the connection instead of answering."""


class Wire:
    """One connection. Every wait ends after `seconds_max`."""

    def __init__(self, port: int, seconds_max: float = 10) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), seconds_max)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        """The next answer without its length; raises Closed if there will be none."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def closed_by_peer(self) -> bool:
        """Wait for the broker to close; False if it answers or stays silent."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def call(self, api: int, version: int, body: bytes) -> Reader:
        """Send a request and return a reader at the beginning of its answer's body."""
        self._correlation += 1
        self.send(frame(request(api, version, body, self._correlation)))
        answer = Reader(self.receive_frame())
        correlation = answer.int32()
        assert correlation == self._correlation, f"answer to {correlation} instead"
        return answer

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError as reset:
                raise Closed("reset") from reset
            if not part:
                raise Closed(f"closed after {len(data)} of {size} bytes")
            data += part
        return bytes(data)


class Reader:
    """Reads an answer's fields one after another."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def _take(self, code: str) -> int:
        (value,) = struct.unpack_from(code, self.data, self.at)
        self.at += struct.calcsize(code)
        number: int = value
        return number

    def int8(self) -> int:
        return self._take(">b")

    def int16(self) -> int:
        return self._take(">h")

    def int32(self) -> int:
        return self._take(">i")

    def int64(self) -> int:
        return self._take(">q")

    def string(self) -> str | None:
        size = self.int16()
        return None if size < 0 else self._bytes(size).decode()

    def blob(self) -> bytes:
        size = self.int32()
        return b"" if size < 0 else self._bytes(size)

    def _bytes(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def string(text: str | None) -> bytes:
    data = b"" if text is None else text.encode()
    return struct.pack(">h", -1 if text is None else len(data)) + data


def array(items: Iterable[bytes]) -> bytes:
    parts = list(items)
    return struct.pack(">i", len(parts)) + b"".join(parts)


def request(api: int, version: int, body: bytes, correlation: int = 1) -> bytes:
    """A request with the header that all non-flexible versions share."""
    return _REQUEST_HEAD.pack(api, version, correlation) + string("wire") + body


class TopicState(NamedTuple):
    """What Metadata says of a topic: its error, and the leader of each partition."""

    error: int
    leaders: dict[int, int]


def metadata(wire: Wire) -> dict[str, TopicState]:
    """All topics that the broker knows."""
    answer = wire.call(METADATA, METADATA_VERSION, struct.pack(">i", -1))
    for _ in range(answer.int32()):
        answer.int32(), answer.string(), answer.int32(), answer.string()
    answer.int32()  # the controller
    topics: dict[str, TopicState] = {}
    for _ in range(answer.int32()):
        error, name, _internal = answer.int16(), answer.string(), answer.int8()
        leaders: dict[int, int] = {}
        for _ in range(answer.int32()):
            answer.int16()
            number = answer.int32()
            leaders[number] = answer.int32()
            for _ in range(2):  # replicas, in-sync replicas
                count = answer.int32()
                answer.at += 4 * count
        topics[name or ""] = TopicState(error, leaders)
    return topics


def ask_topic(
    wire: Wire, name: str, partitions: int = 1, config: dict[str, str] | None = None
) -> int:
    """Create a topic and return the error code."""
    settings = array(string(key) + string(value) for key, value in (config or {}).items())
    topic = string(name) + struct.pack(">ih", partitions, 1) + array([]) + settings
    body = array([topic]) + struct.pack(">i?", 30_000, False)
    answer = wire.call(CREATE_TOPICS, CREATE_TOPICS_VERSION, body)
    answer.int32(), answer.int32(), answer.string()
    return answer.int16()


def create_topic(
    wire: Wire, name: str, partitions: int = 1, config: dict[str, str] | None = None
) -> int:
    """Create a topic, wait until it is led, and return the error code."""
    error = ask_topic(wire, name, partitions, config)
    deadline = time.monotonic() + 10
    # Metadata may speak of a leader a moment before the leader itself knows.
    while error == 0 and any(
        fetch(wire, name, 0, each, wait_ms=0).error for each in range(partitions)
    ):
        assert time.monotonic() < deadline, f"{name} was created but is not led"
        time.sleep(0.01)
    return error


def delete_topic(wire: Wire, name: str) -> int:
    """Delete a topic and return the error code."""
    body = array([string(name)]) + struct.pack(">i", 30_000)
    answer = wire.call(DELETE_TOPICS, DELETE_TOPICS_VERSION, body)
    answer.int32(), answer.int32(), answer.string()
    return answer.int16()


class Produced(NamedTuple):
    error: int
    base_offset: int


def produce_body(topic: str, records: bytes, partition: int = 0, acks: int = -1) -> bytes:
    one = struct.pack(">i", partition) + struct.pack(">i", len(records)) + records
    return string(None) + struct.pack(">hi", acks, 10_000) + array([string(topic) + array([one])])


def produce(wire: Wire, topic: str, records: bytes, partition: int = 0) -> Produced:
    answer = wire.call(PRODUCE, PRODUCE_VERSION, produce_body(topic, records, partition))
    answer.int32(), answer.string(), answer.int32(), answer.int32()
    return Produced(answer.int16(), answer.int64())


class Fetched(NamedTuple):
    error: int
    high_watermark: int
    records: bytes


def fetch(
    wire: Wire,
    topic: str,
    offset: int,
    partition: int = 0,
    *,
    bytes_max: int = 1 << 20,
    wait_ms: int = 100,
) -> Fetched:
    where = struct.pack(">iqi", partition, offset, bytes_max)
    body = struct.pack(">iiiib", -1, wait_ms, 1, bytes_max, 0) + array(
        [string(topic) + array([where])]
    )
    answer = wire.call(FETCH, FETCH_VERSION, body)
    answer.int32(), answer.int32(), answer.string(), answer.int32(), answer.int32()
    error, high_watermark, _stable = answer.int16(), answer.int64(), answer.int64()
    for _ in range(answer.int32()):
        answer.int64(), answer.int64()
    return Fetched(error, high_watermark, answer.blob())


def varint(number: int) -> bytes:
    """Zigzag, seven bits at a time, as records store their numbers."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record(number: int, value: bytes) -> bytes:
    body = (
        b"\x00" + varint(0) + varint(number) + varint(-1) + varint(len(value)) + value + varint(0)
    )
    return varint(len(body)) + body


def batch(
    values: list[bytes],
    *,
    payload: bytes | None = None,
    codec: int = 0,
    count: int | None = None,
    magic: int = 2,
    timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A record batch of version 2 around `values`, or around a given (compressed) payload."""
    if payload is None:
        payload = b"".join(record(number, value) for number, value in enumerate(values))
    many = len(values) if count is None else count
    now = int(time.time() * 1000) if timestamp is None else timestamp
    head = _BATCH_HEAD.pack(
        0, _BATCH_HEAD.size + len(payload) - 12, -1, magic, 0, codec, many - 1, now, now,
        *producer, many,
    )  # fmt: skip
    return resealed(head + payload)


def resealed(data: bytes) -> bytes:
    """The same batch with a CRC that fits."""
    crc = crc32c.crc32c(data[_CRC_FROM:])
    return data[:17] + struct.pack(">I", crc) + data[_CRC_FROM:]
