"""Connections over TLS, on both event loops: what works in the clear works encrypted."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from penstock.net.listener import Limits
from penstock.net.tls import Encrypted
from penstock.platform.disk import Disk
from tests.unit.net.conftest import Run
from tests.unit.net.encrypted import (
    HandMade,
    Keys,
    client_tls,
    encrypted,
)
from tests.unit.net.scripted import (
    LARGE_BYTES,
    ColdFile,
    ScriptedService,
    eventually,
    file_of,
    frame,
)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_frames_are_served_in_order(run: Run, version: str) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls(version=version))
            client.send(b"e1", b"n", b"e2")
            assert [await client.receive(), await client.receive()] == [b"e1", b"e2"]

    run(scenario())


def test_large_frames_and_large_replies_come_whole(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls())
            body = b"e" + os.urandom(3_000_000)
            client.send(body, b"b", b"e2")
            assert await client.receive() == body
            assert await client.receive() == b"b" * LARGE_BYTES
            assert await client.receive() == b"e2"

    run(scenario())


def test_bytes_that_trickle_in_make_the_same_frames(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            for byte in frame(b"e12345"):  # a record for each
                await client.send(bytes([byte]))
            assert await client.receive() == b"e12345"

    run(scenario())


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_records_that_are_nearly_empty_make_the_same_frames(run: Run, version: str) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node, version)
            await client.shake_hands()
            body = b"e" + os.urandom(4_000)
            for byte in frame(body):  # in all more than TLS is given at a time
                client.tls.write(bytes([byte]))
            client.flush()
            assert await client.receive() == body

    run(scenario())


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_frame_of_many_records_comes_whole_wherever_its_bytes_stop_for_a_while(
    run: Run, version: str
) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node, version)
            await client.shake_hands()
            body = b"e" + os.urandom(5_000)
            for cut in (1, 4, 5, 6, 700, 1_023, 1_024, 1_029, 1_046, 2_000, 3_333, 4_999, 5_100):
                for start in range(0, 4 + len(body), 1_024):  # as librdkafka does
                    client.tls.write(frame(body)[start : start + 1_024])
                sent = client.unsent()
                for piece in (sent[:cut], sent[cut : cut + 300], sent[cut + 300 :]):
                    client.writer.write(piece)
                    await asyncio.sleep(0.004)
                assert await asyncio.wait_for(client.receive(), 10) == body, f"cut at {cut}"

    run(scenario())


def test_of_a_frame_that_comes_record_by_record_the_kernel_gathers_the_rest(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken = 0
    updated = Encrypted.buffer_updated

    def count(self: Encrypted, nbytes: int) -> None:
        nonlocal woken
        woken += 1
        updated(self, nbytes)

    monkeypatch.setattr(Encrypted, "buffer_updated", count)

    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            await asyncio.sleep(0.05)
            before, body = woken, b"e" + os.urandom(31 * 1_024)
            for start in range(0, len(body), 1_024):
                await client.send(frame(body)[start : start + 1_024])
                await asyncio.sleep(0.002)
            await client.send(frame(body)[len(body) :])
            assert await client.receive() == body
            assert woken - before <= 4

    run(scenario())


def test_records_cut_at_any_place_are_put_together_again(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            client.tls.write(frame(b"e1"))
            client.tls.write(frame(b"n2"))
            for byte in client.unsent():
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert await client.receive() == b"e1"
            await eventually(lambda: node.service.served == [b"e1", b"n2"])

    run(scenario())


def test_what_is_put_aside_goes_on_when_the_request_before_it_is_answered(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls())
            client.send(b"w1", *[b"e%d" % number for number in range(50)])
            await eventually(lambda: node.service.waiting)
            assert len(node.service.served) == 1
            node.service.release(b"w1")
            expected = [b"w1", *[b"e%d" % number for number in range(50)]]
            assert [await client.receive() for _ in expected] == expected

    run(scenario())


def test_a_client_that_does_not_read_is_not_read_from(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            await client.send(b"".join(frame(b"b%d" % number) for number in range(100)))
            await asyncio.sleep(0.3)
            assert len(node.service.served) < 10  # 4 MB each: a socket takes two or three

    run(scenario())


def test_slices_of_files_arrive_between_the_bytes_around_them(run: Run, tmp_path: Any) -> None:
    content = os.urandom(5_000_000)

    async def scenario() -> None:
        service = ScriptedService(file_of(Disk(), str(tmp_path / "log"), content))
        async with encrypted(Keys(), service=service) as node:
            client = await node.client(client_tls())
            client.send(b"s", b"e1")
            assert await client.receive() == b"head" + content + b"tail"
            assert await client.receive() == b"e1"

    run(scenario())


def test_a_slice_from_a_cold_disk_holds_nobody_up(run: Run, tmp_path: Any) -> None:
    content = os.urandom(3_000_000)

    async def scenario() -> None:
        cold: Any = ColdFile(file_of(Disk(), str(tmp_path / "log"), content))
        async with encrypted(Keys(), service=ScriptedService(cold)) as node:
            client, other = await node.client(client_tls()), await node.client(client_tls())
            client.send(b"s")
            await eventually(lambda: cold.asked)
            other.send(b"e1")
            assert await other.receive() == b"e1"
            cold.warm()
            assert await client.receive() == b"head" + content + b"tail"

    run(scenario())


def test_a_client_may_say_farewell_and_still_be_answered(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            client.tls.write(frame(b"w1") + frame(b"n2"))
            client.say_farewell()
            await eventually(lambda: node.service.waiting)
            node.service.release(b"w1")
            assert await client.receive() == b"w1"
            assert node.service.served == [b"w1", b"n2"]
            await eventually(lambda: not node.listener.connections)

    run(scenario())


def test_a_client_may_close_its_sending_half_and_still_be_answered(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            await client.send(frame(b"w1"))
            await eventually(lambda: node.service.waiting)
            client.writer.write_eof()
            await asyncio.sleep(0.05)
            node.service.release(b"w1")
            assert await client.receive() == b"w1"
            await eventually(lambda: not node.listener.connections)

    run(scenario())


def test_a_farewell_with_nothing_to_wait_for_closes(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await HandMade.connect(node)
            await client.shake_hands()
            client.say_farewell()
            await eventually(lambda: not node.listener.connections)
            async with asyncio.timeout(5):
                while await client.reader.read(1 << 16):
                    pass  # the server's own farewell

    run(scenario())


def test_a_client_that_goes_away_cancels_what_it_waited_for(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls())
            client.send(b"w1")
            await eventually(lambda: node.service.waiting)
            client.reset()
            await eventually(lambda: node.service.waiting[b"w1"].cancelled())
            assert not node.listener.connections

    run(scenario())


def test_an_idle_connection_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys(), Limits(idle_ms_max=200)) as node:
            client = await node.client(client_tls())
            client.send(b"e")
            assert await client.receive() == b"e"
            assert await client.is_closed()

    run(scenario())


def test_stopping_answers_what_waits_and_says_farewell(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            client = await node.client(client_tls())
            client.send(b"w1")
            await eventually(lambda: node.service.waiting)
            stopping = asyncio.ensure_future(node.listener.stop(5000))
            await asyncio.sleep(0.02)
            node.service.release(b"w1")
            assert await client.receive() == b"w1"
            assert await client.reader.read(1) == b""  # an end, and no error
            await stopping

    run(scenario())


def test_garbage_behind_the_handshake_closes_its_connection_and_no_other(run: Run) -> None:
    async def scenario() -> None:
        keys = Keys()
        async with encrypted(keys) as node:
            other, client = await node.client(client_tls()), await HandMade.connect(node)
            await client.shake_hands()
            await eventually(lambda: len(node.listener.connections) == 2)
            client.writer.write(b"\x17\x03\x03\x00\x20" + os.urandom(32))
            await eventually(lambda: len(node.listener.connections) == 1)
            other.send(b"e")
            assert await other.receive() == b"e"
            assert keys.failures == [("127.0.0.1", "decryption failed or bad record mac")]

    run(scenario())


def test_idle_connections_hold_no_receive_memory(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            clients = [await node.client(client_tls()) for _ in range(20)]
            for client in clients:
                client.send(b"e")
                assert await client.receive() == b"e"
            assert node.listener.pool.borrowed_bytes == 0

    run(scenario())


def test_what_is_not_wanted_yet_waits_and_nothing_else_is_received_over_it(run: Run) -> None:
    async def scenario() -> None:
        async with encrypted(Keys()) as node:
            first, second = await node.client(client_tls()), await node.client(client_tls())
            bodies = [b"e%d-" % number + os.urandom(3000) for number in range(100)]
            first.send(b"w1", *bodies)
            await eventually(lambda: node.service.waiting)
            for _ in range(20):
                second.send(b"e" + os.urandom(100_000))
                await second.receive()
            node.service.release(b"w1")
            assert [await first.receive() for _ in range(101)] == [b"w1", *bodies]

    run(scenario())
