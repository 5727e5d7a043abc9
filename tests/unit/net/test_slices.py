"""Slices of files on their way into a socket, on both event loops."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from statistics import median
from typing import cast

import pytest

from penstock.net.listener import Limits
from penstock.net.outbox import UNPACED
from penstock.platform.disk import Disk, File
from tests.unit.net.conftest import Run
from tests.unit.net.scripted import (
    LARGE_BYTES,
    ColdFile,
    ScriptedService,
    eventually,
    file_of,
    running,
)


def test_nothing_more_is_served_while_a_slice_comes_from_a_cold_disk(
    run: Run, tmp_path: object
) -> None:
    async def scenario() -> None:
        file = ColdFile(file_of(Disk(), f"{tmp_path}/data", b"x" * 100_000))
        service = ScriptedService(cast(File, file))
        async with running(service=service) as node:
            client = await node.client()
            client.send(b"s", *[b"b"] * 20)
            await eventually(lambda: file.asked)
            await asyncio.sleep(0.1)
            assert service.served == [b"s"]
            file.warm()
            assert await client.receive() == b"head" + b"x" * 100_000 + b"tail"
            for _ in range(20):
                assert len(await client.receive()) == LARGE_BYTES

    run(scenario())


def test_slices_of_files_arrive_between_the_bytes_around_them(run: Run, tmp_path: object) -> None:
    async def scenario() -> None:
        content = os.urandom(3_000_000)
        service = ScriptedService(file_of(Disk(), f"{tmp_path}/data", content))
        async with running(service=service) as node:
            client = await node.client()
            client.send(b"e0", b"s", b"s", b"e3")
            assert await client.receive() == b"e0"
            for _ in range(2):
                assert await client.receive() == b"head" + content + b"tail"
            assert await client.receive() == b"e3"

    run(scenario())


def test_a_reader_that_stops_and_goes_on_gets_every_byte_of_a_slice(
    run: Run, tmp_path: object
) -> None:
    async def scenario() -> None:
        content = os.urandom(8_000_000)
        service = ScriptedService(file_of(Disk(), f"{tmp_path}/data", content))
        async with running(service=service) as node:
            client = await node.client()
            client.writer.transport.pause_reading()
            client.send(b"s", b"s", b"e2")
            await asyncio.sleep(0.1)
            client.writer.transport.resume_reading()
            for _ in range(2):
                assert await client.receive() == b"head" + content + b"tail"
            assert await client.receive() == b"e2"

    run(scenario())


@pytest.mark.parametrize("head", [b"head", b"h" * 50_000, b"h" * 63_000], ids=len)
@pytest.mark.parametrize("send_buffer_bytes", [-1, 20_000, 50_000])
def test_slices_go_out_without_a_pause(
    run: Run, tmp_path: object, send_buffer_bytes: int, head: bytes
) -> None:
    """Bytes that the system holds back, as more were promised, would wait for 0.2 s each time."""
    contents = os.urandom(1 << 20)

    async def scenario() -> None:
        service = ScriptedService(file_of(Disk(), f"{tmp_path}/data", contents))
        service.slice_begin = 1000
        service.head = head
        limits = Limits(send_buffer_bytes=send_buffer_bytes)
        async with running(limits, service=service) as node:
            client = await node.client()
            took = []
            for _ in range(9):
                begun = time.monotonic()
                client.send(b"s")
                assert await client.receive() == head + contents[1000:] + b"tail"
                took.append(time.monotonic() - begun)
            assert median(took) < 0.05

    run(scenario())


@pytest.mark.parametrize("send_buffer_bytes", [-1, 1 << 20])
def test_a_local_socket_is_unpaced_unless_its_buffer_was_set(
    run: Run, send_buffer_bytes: int
) -> None:
    with socket.socket() as untouched:
        systems_own = untouched.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)

    async def scenario() -> None:
        async with running(Limits(send_buffer_bytes=send_buffer_bytes)) as node:
            await node.client()
            await eventually(lambda: node.listener.connections)
            (connection,) = node.listener.connections
            sock = connection._outbox._sock
            assert sock is not None
            control = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
            wanted = UNPACED if send_buffer_bytes < 0 else systems_own
            assert control.rstrip(b"\0") == wanted.rstrip(b"\0")

    run(scenario())


def test_a_slice_that_its_file_no_longer_holds_closes(run: Run, tmp_path: object) -> None:
    async def scenario() -> None:
        file = file_of(Disk(), f"{tmp_path}/data", b"x" * 100_000)
        service = ScriptedService(file)
        async with running(service=service) as node:
            client = await node.client()
            os.truncate(f"{tmp_path}/data", 10)
            client.send(b"s")
            async with asyncio.timeout(5):
                received = await client.reader.read(-1)
            assert len(received) < 100_000  # never filled up with bytes that are not the log's

    run(scenario())


def test_a_reader_that_hangs_up_in_the_middle_of_a_slice_is_no_news(
    run: Run,
    tmp_path: object,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def gone(*_: object) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    async def scenario() -> None:
        service = ScriptedService(file_of(Disk(), f"{tmp_path}/data", b"x" * 100_000))
        async with running(service=service) as node:
            client = await node.client()
            monkeypatch.setattr("penstock.net.outbox.os.sendfile", gone)
            client.send(b"s")
            async with asyncio.timeout(5):
                assert len(await client.reader.read(-1)) < 100_000

    run(scenario())
    assert not caplog.records
