"""A broker that is none: it takes batches from producers, stores them unseen, and says that all is
well.

What it takes for the same records from the same client is left when all that makes a broker one is
missing (checksums, offsets that mean something, indexes, rights, replicas): to be woken, to
receive, to write to a file as Penstock does, to answer. Nothing says that less would not do.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any

from penstock.platform.disk import Disk, File
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.generated.init_producer_id import InitProducerIdResponse
from penstock.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.headers import read_request_header, write_response_header
from penstock.protocol.message import Message
from penstock.protocol.primitives import read_uvarint
from penstock.protocol.registry import API
from tests.oracle.nodes import REPOSITORY

PARTITIONS = 4
_VERSIONS = {
    ApiKey.PRODUCE: range(13),  # up to the last that names topics by their names
    ApiKey.METADATA: range(13),
    ApiKey.API_VERSIONS: range(4),
    ApiKey.INIT_PRODUCER_ID: range(5),
    # Never asked for; but librdkafka sends records as it did in 2016 to whoever lacks them.
    ApiKey.FETCH: range(4, 18),
    ApiKey.FIND_COORDINATOR: range(6),
}
_BUFFER_BYTES = 4 << 20  # four of the largest requests
_LENGTH = Struct(">i")
_HEAD = Struct(">4xih")  # of a request: correlation id, length of the client id
_TO_TOPICS = 10 + 1 + 1 + 2 + 4  # with no tags and no transaction: acks, timeout
_INDEX = Struct(">i")
_ANSWER = Struct(">iix")  # length, correlation id, no tags
_PARTITION = Struct(">ihqqqBxx")  # no error, an offset, no time, the log's start, no complaints
_END = bytes(5)  # not throttled, no tags


@contextmanager
def running() -> Iterator[tuple[int, int]]:
    """The port and the process id of one."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-bare-") as directory,
        subprocess.Popen(
            [sys.executable, "-m", "bench.bare", directory],
            cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


class Bare:
    """Everything that it serves, one request after another."""

    def __init__(self, directory: Path, port: int) -> None:
        disk = Disk()
        self._port = port
        self._files: list[File] = [
            disk.open(str(directory / f"{index}"), create=True) for index in range(PARTITIONS)
        ]
        self._others: dict[int, Callable[[Any], Message]] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdResponse(producer_id=1),
        }

    def answer(self, view: memoryview) -> tuple[bytearray, int]:
        """The answers to all whole requests in what came, and where the last of them ends."""
        out = bytearray()
        came: dict[int, list[memoryview]] = {}
        at, end = 0, len(view)
        while end - at >= 4:
            begin = at + 4
            stop = begin + _LENGTH.unpack_from(view, at)[0]
            if stop > end:
                break
            frame = view[begin:stop]
            if frame[1] or frame[0]:
                out += self._other(frame)
            else:
                self._produce(frame, came, out)
            at = stop
        for index, batches in came.items():
            self._files[index].append_all(batches)
        return out, at

    def _produce(
        self, frame: memoryview, came: dict[int, list[memoryview]], out: bytearray
    ) -> None:
        correlation_id, size = _HEAD.unpack_from(frame)
        at = size + _TO_TOPICS
        begin = len(out)
        out += _ANSWER.pack(0, correlation_id)
        out.append(frame[at])
        topics = frame[at] - 1
        at += 1
        for _ in range(topics):
            name_end = at + frame[at]
            out += frame[at : name_end + 1]  # and how many partitions
            at = name_end + 1
            for _ in range(frame[name_end] - 1):
                (index,) = _INDEX.unpack_from(frame, at)
                size, at = read_uvarint(frame, at + 4)  # one more than the bytes that follow
                came.setdefault(index, []).append(frame[at : at + size - 1])
                at += size
                out += _PARTITION.pack(index, 0, 0, -1, 0, 1)
            at += 1
            out.append(0)
        out += _END
        _LENGTH.pack_into(out, begin, len(out) - begin - 4)

    def _other(self, frame: memoryview) -> bytearray:
        api_key, version, correlation_id, _, at = read_request_header(frame)
        spec = API[api_key]
        request, _ = spec.request_class.read(frame, version, at)
        out = bytearray(4)
        write_response_header(out, spec.response_header_version(version), correlation_id)
        self._others[api_key](request).write(version, out)
        _LENGTH.pack_into(out, 0, len(out) - 4)
        return out

    def _api_versions(self, _: Any) -> Message:
        keys = [
            ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
            for key, versions in _VERSIONS.items()
        ]
        return ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: Any) -> Message:
        partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
            )
            for index in range(PARTITIONS)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self._port)],
            cluster_id="bare",
            controller_id=1,
            topics=[
                MetadataResponseTopic(name=topic.name, topic_id=b"b" * 16, partitions=partitions)
                for topic in request.topics or []
            ],
        )


class _Client:
    """A connection, and what it has sent of a request that is not whole yet."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0

    def serve(self, bare: Bare) -> bool:
        """False when it has gone."""
        buffer = self._buffer
        count = self._sock.recv_into(buffer[self._filled :])
        if not count:
            return False
        filled = self._filled + count
        out, at = bare.answer(buffer[:filled])
        if at:
            rest = filled - at
            if rest:
                buffer[:rest] = bytes(buffer[at:filled])
            filled = rest
        self._filled = filled
        if out and self._sock.send(out) < len(out):
            raise BlockingIOError("the client does not take its answers")
        return True


def _serve(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        print(port, flush=True)
        bare = Bare(directory, port)
        clients: dict[int, _Client] = {}
        ready = select.epoll()
        ready.register(server, select.EPOLLIN)
        ready.register(sys.stdin, select.EPOLLHUP)  # whoever started it is gone
        while True:
            for fd, _ in ready.poll():
                if fd == sys.stdin.fileno():
                    return
                if fd == server.fileno():
                    sock, _ = server.accept()
                    ready.register(sock, select.EPOLLIN)
                    clients[sock.fileno()] = _Client(sock)
                elif not clients[fd].serve(bare):
                    ready.unregister(fd)
                    del clients[fd]


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
