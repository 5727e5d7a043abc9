"""The byte stream of a connection, the heads of its requests, and the produce request's outline."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from penstock.net.buffers import BORROWED_BYTES_MIN, BufferPool
from penstock.net.framing import FrameAssembly, FrameError, frame_length
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.headers import (
    read_request_header,
    read_response_header,
    write_request_header,
)
from penstock.protocol.primitives import ProtocolError
from penstock.protocol.registry import API
from penstock.server.large_produce import check_outline
from penstock.server.plain_produce import BY_ID_FROM, serve_plain
from tests.fuzz.target import Target
from tests.fuzz.targets.messages import apache_bodies
from tests.fuzz.targets.records import apache_batches

FRAME_BYTES_MAX = 2000
OUTLINE_BYTES_MAX = 500
PRODUCE = 0


def assemble(data: bytes) -> None:
    """A byte says how the network cuts the rest; the frames are those of one who sees it whole."""
    if not data:
        return
    step, stream = data[0] + 1, data[1:]
    expected, broken = _frames_of(stream)
    pool = BufferPool(1 << 40)
    assembly = FrameAssembly(pool, FRAME_BYTES_MAX)
    frames: list[bytes] = []
    at = 0
    try:
        while at < len(stream):
            room = assembly.room()
            count = min(len(room), step, len(stream) - at)
            room[:count] = stream[at : at + count]
            at += count
            frames += _cut(assembly, assembly.take(count))
            assert assembly.held_bytes <= max(BORROWED_BYTES_MIN, 32 * at)
            assert pool.borrowed_bytes == assembly.held_bytes
    except FrameError:
        assert broken
    else:
        assert not broken
    assert frames == expected
    assembly.drop()
    assert pool.borrowed_bytes == 0


def _frames_of(stream: bytes) -> tuple[list[bytes], bool]:
    """The whole frames, and whether a length ends them that nobody may announce."""
    frames: list[bytes] = []
    at = 0
    while len(stream) - at >= 4:
        (length,) = struct.unpack_from(">i", stream, at)
        if not 0 <= length <= FRAME_BYTES_MAX:
            return frames, True
        if at + 4 + length > len(stream):
            break
        frames.append(stream[at + 4 : at + 4 + length])
        at += 4 + length
    return frames, False


def _cut(assembly: FrameAssembly, view: memoryview) -> Iterator[bytes]:
    at = 0
    while len(view) - at >= 4:
        end = at + 4 + frame_length(view, at, FRAME_BYTES_MAX)
        if end > len(view):
            break
        yield bytes(view[at + 4 : end])
        at = end
    if at != len(view) or assembly.waiting:
        assembly.keep(view[at:])


def _streams() -> Iterator[bytes]:
    for step in (0, 3, 255):
        bodies = (b"", b"x", bytes(300), bytes(FRAME_BYTES_MAX))
        yield bytes((step,)) + b"".join(struct.pack(">i", len(it)) + it for it in bodies)
        for length in (-1, FRAME_BYTES_MAX + 1, 2**31 - 1):
            yield bytes((step,)) + struct.pack(">i", length) + bytes(40)
    yield b"\x07GET / HTTP/1.1\r\n\r\n"
    yield b"\x00\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)


def head_of_request(data: bytes) -> None:
    """What can be read of a head can be written, and is the same when it is read again."""
    try:
        key, version, correlation_id, client_id, at = read_request_header(memoryview(data))
    except ProtocolError:
        return
    assert 10 <= at <= len(data)
    out = bytearray()
    write_request_header(out, key, version, correlation_id, client_id)
    assert read_request_header(memoryview(out))[:4] == (key, version, correlation_id, client_id)


def _request_heads() -> Iterator[bytes]:
    for key, spec in API.items():
        for version in (spec.versions[0], spec.versions[-1], 99):
            out = bytearray()
            write_request_header(out, key, version, 7, "client")
            yield bytes(out)
    flexible = struct.pack(">hhih", 18, 4, 7, -1)
    yield flexible + b"\x02\x00\x01a\x05\x00"  # two tagged fields that nobody knows
    yield flexible + b"\xff\xff\xff\xff\x0f" + bytes(40)
    yield struct.pack(">hhih", 3, 1, 7, 32767)
    yield struct.pack(">hhihh", 3, 1, 7, 2, 0) + b"\xff\xff"


def head_of_response(data: bytes) -> None:
    if not data:
        return
    try:
        _, at = read_response_header(memoryview(data)[1:], data[0] & 1)
    except ProtocolError:
        return
    assert 4 <= at <= len(data) - 1


def _response_heads() -> Iterator[bytes]:
    yield bytes(5)
    yield b"\x01" + bytes(5)


def outline(data: bytes) -> None:
    """What the outline lets pass makes no more objects than its bound allows."""
    if not data:
        return
    spec = API[PRODUCE]
    version = spec.codec_versions[data[0] % len(spec.codec_versions)]
    body = memoryview(data)[1:]
    try:
        check_outline(body, version, 0, OUTLINE_BYTES_MAX)
        request, _ = spec.request_class.read(body, version)
    except ProtocolError:
        return
    topics = request.topic_data  # type: ignore[attr-defined]
    partitions = sum(len(topic.partition_data) for topic in topics)
    # Each stands for so many bytes at the least, and bytes besides records are what is bounded.
    assert 2 * len(topics) + 5 * partitions <= OUTLINE_BYTES_MAX + 16


def _outlines() -> Iterator[bytes]:
    versions = list(API[PRODUCE].codec_versions)
    for version, body in apache_bodies("ProduceRequest"):
        yield bytes((versions.index(version),)) + body


class _AnyPartition(dict[Any, Any]):
    """Every partition that is asked for is led here, and keeps what it is given."""

    def get(self, key: Any, default: Any = None) -> Any:
        def append(batch: memoryview, now: int, verified: object) -> str:
            taken.append((key, bytes(batch)))
            return "kept"

        taken = self.setdefault("taken", [])
        return SimpleNamespace(
            append=append,
            topic=key[0],
            leading=True,
            internal=False,
            offline=False,
            under_min=False,
        )


def short_way(data: bytes) -> None:
    """What the short way of produce takes is what the decoder reads, partition by partition."""
    frame = struct.pack(">h", PRODUCE) + data
    kept = _AnyPartition()
    clock = SimpleNamespace(now=lambda: 0)
    broker: Any = SimpleNamespace(hosted=kept, hosted_by_id=kept, clock=clock, quotas=None)
    connection: Any = SimpleNamespace(gate=None, last_active=0.0)
    taken = serve_plain(broker, connection, memoryview(frame), lambda *_: bytearray())
    if taken is None:
        assert not dict.get(kept, "taken"), "stored, and left to the long way to store again"
        return
    _, version, _, _, at = read_request_header(memoryview(frame))
    request: Any
    request, end = API[PRODUCE].request_class.read(frame, version, at)
    assert end == len(frame)
    assert request.transactional_id is None
    read = [
        ((topic.topic_id if version >= BY_ID_FROM else topic.name, part.index), bytes(part.records))
        for topic in request.topic_data
        for part in topic.partition_data
    ]
    assert read == dict.get(kept, "taken")


def _short_frames() -> Iterator[bytes]:
    records = apache_batches()[0]
    for version in (9, 12, 13):
        for indexes in ([0], [0, 1, 2]):
            request = ProduceRequest(
                transactional_id=None,
                acks=-1,
                timeout_ms=1000,
                topic_data=[
                    TopicProduceData(
                        name="" if version >= BY_ID_FROM else "orders",
                        topic_id=bytes(range(16)) if version >= BY_ID_FROM else bytes(16),
                        partition_data=[
                            PartitionProduceData(index=index, records=memoryview(records))
                            for index in indexes
                        ],
                    )
                ],
            )
            out = bytearray()
            write_request_header(out, PRODUCE, version, 7, "client")
            request.write(version, out)
            yield bytes(out[2:])


TARGETS = [
    Target("short_produce", short_way, _short_frames),
    Target("frames", assemble, _streams, memory_base=2 << 20),
    Target("request_heads", head_of_request, _request_heads, size_max=512),
    Target(
        "response_heads", head_of_response, lambda: [b"\x00" + bytes(4), b"\x01" + bytes(5)], 64
    ),
    Target("produce_outlines", outline, _outlines),
]
