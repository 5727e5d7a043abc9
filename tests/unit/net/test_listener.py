"""Bounds, idle connections and shutdown, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from penstock.net.admission import Admission, Bounds
from penstock.net.buffers import BufferPool
from penstock.net.listener import Limits, Listener
from tests.unit.net.conftest import Run
from tests.unit.net.scripted import NARROW_BYTES, ScriptedService, eventually, running


def test_connections_above_the_limit_wait_until_others_leave(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(connections_max=2)) as node:
            first, second = await node.client(), await node.client()
            second.send(b"e")
            assert await second.receive() == b"e"
            third = await node.client()
            third.send(b"e3")
            assert await third.hears_nothing()
            assert len(node.listener.connections) == 2
            first.close()
            assert await third.receive() == b"e3"

    run(scenario())


def test_connections_of_one_address_are_bounded(run: Run) -> None:
    async def scenario() -> None:
        bounds = Bounds(connections_per_address_max=1)
        async with running(admission=Admission(bounds)) as node:
            first = await node.client()
            first.send(b"e")
            assert await first.receive() == b"e"
            second = await node.client()
            assert await second.is_closed()

    run(scenario())


def test_an_idle_connection_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(idle_ms_max=200)) as node:
            client = await node.client()
            client.send(b"e")
            assert await client.receive() == b"e"
            assert await client.is_closed()

    run(scenario())


def test_a_connection_in_use_is_not_idle(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(idle_ms_max=300)) as node:
            client = await node.client()
            for _ in range(8):
                client.send(b"e")
                assert await client.receive() == b"e"
                await asyncio.sleep(0.1)

    run(scenario())


def test_a_long_poll_is_not_idle_and_its_answer_counts_as_use(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(idle_ms_max=200)) as node:
            client = await node.client()
            client.send(b"w1")
            await asyncio.sleep(0.5)
            node.service.release(b"w1")
            assert await client.receive() == b"w1"
            await asyncio.sleep(0.1)
            client.send(b"e2")
            assert await client.receive() == b"e2"

    run(scenario())


def test_a_client_that_left_its_long_poll_behind_is_idle(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(idle_ms_max=200)) as node:
            client = await node.client()
            client.send(b"w1")
            await eventually(lambda: node.service.waiting)
            client.close()
            await eventually(lambda: not node.listener.connections)
            assert node.service.waiting[b"w1"].cancelled()

    run(scenario())


def test_a_client_that_never_reads_its_replies_is_closed_as_idle(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(idle_ms_max=200)) as node:
            client = await node.client()
            client.writer.transport.pause_reading()
            client.send(*[b"b"] * 20)
            await eventually(lambda: node.service.served)
            await eventually(lambda: not node.listener.connections)

    run(scenario())


def test_a_negative_idle_time_keeps_connections_for_ever(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(idle_ms_max=-1)) as node:
            client = await node.client()
            await asyncio.sleep(0.3)
            client.send(b"e")
            assert await client.receive() == b"e"

    run(scenario())


def test_stopping_answers_what_waits_and_then_closes(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            idle, busy = await node.client(), await node.client()
            busy.send(b"w1")
            await eventually(lambda: node.service.waiting)
            stopping = asyncio.ensure_future(node.listener.stop(5000))
            assert await idle.is_closed()
            assert not stopping.done()
            node.service.release(b"w1")
            assert await busy.receive() == b"w1"
            assert await busy.is_closed()
            await stopping

    run(scenario())


def test_stopping_waits_for_a_large_reply_to_be_read(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"b")
            await eventually(lambda: node.service.served)
            stopping = asyncio.ensure_future(node.listener.stop(5000))
            assert len(await client.receive()) == 4_000_000
            await stopping

    run(scenario())


def test_stopping_loses_patience(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"w1")
            await eventually(lambda: node.service.waiting)
            await node.listener.stop(50)
            assert await client.is_closed()

    run(scenario())


def test_a_stopped_listener_accepts_nobody(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            await node.listener.stop(0)
            with pytest.raises(OSError):
                await node.client()

    run(scenario())


def test_a_client_who_comes_in_while_the_listener_stops_is_not_waited_for(run: Run) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        for turns in range(8):  # one of them stops between accepting and letting in
            async with running() as node:
                sock = socket.create_connection(("127.0.0.1", node.listener.port), 1)
                for _ in range(turns):
                    await asyncio.sleep(0)
                began = loop.time()
                await node.listener.stop(3000)
                assert loop.time() - began < 2, turns
                await asyncio.sleep(0.01)
                assert not node.listener.connections
                sock.close()

    run(scenario())


def test_memory_for_unfinished_frames_is_bounded_for_all_clients_together(run: Run) -> None:
    async def scenario() -> None:
        async with running(memory_max=1_000_000) as node:
            greedy = [await node.client() for _ in range(30)]
            for client in greedy:
                client.writer.write(struct.pack(">i", 50_000_000) + b"e" * 100_000)
            await asyncio.sleep(0.3)
            # One frame may pass the bound before its connection is closed.
            assert node.listener.pool.borrowed_bytes <= 1_000_000
            assert len(node.listener.connections) < len(greedy)
            client = await node.client()
            client.send(b"e1")
            assert await client.receive() == b"e1"

    run(scenario())


def test_exhausted_memory_costs_the_connection_that_holds_most_of_it(run: Run) -> None:
    async def scenario() -> None:
        async with running(memory_max=540_000) as node:
            hog, modest = await node.client(), await node.client()
            hog.writer.write(struct.pack(">i", 50_000_000) + b"e" * 30_000)
            await eventually(lambda: node.listener.pool.borrowed_bytes > 500_000)
            modest.writer.write(struct.pack(">i", 20_000) + b"e" * 10_000)
            assert await hog.is_closed()
            modest.writer.write(b"e" * 10_000)
            assert await modest.receive() == b"e" * 20_000
            assert node.listener.pool.borrowed_bytes == 0

    run(scenario())


def test_idle_connections_hold_no_receive_memory(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            for number in range(200):
                client = await node.client()
                client.send(b"e%d" % number)
                await client.receive()
            assert node.listener.pool.borrowed_bytes == 0

    run(scenario())


def test_a_burst_of_clients_waits_in_the_kernel_and_nobody_is_turned_away(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            address = ("127.0.0.1", node.listener.port)
            # Nothing is accepted meanwhile: this blocks the loop.
            burst = [socket.create_connection(address, 0.5) for _ in range(500)]
            await eventually(lambda: len(node.listener.connections) == 500)
            for sock in burst:
                sock.close()
            await eventually(lambda: not node.listener.connections)

    run(scenario())


def test_a_port_that_is_taken_is_an_error_at_once(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            other = Listener("OTHER", BufferPool(1 << 20), Limits())
            with pytest.raises(OSError):
                other.bind("127.0.0.1", node.listener.port)

    run(scenario())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_empty_host_means_both_families_and_plain_addresses(run: Run) -> None:
    async def scenario() -> None:
        listener = Listener("ANY", BufferPool(1 << 20), Limits())
        listener.service = ScriptedService()
        listener.bind("", 0)
        await listener.start()
        for host in ("127.0.0.1", "::1"):
            _, writer = await asyncio.open_connection(host, listener.port)
            await eventually(lambda: listener.connections)
            assert [each.peer[0] for each in listener.connections] == [host]
            writer.close()
            await eventually(lambda: not listener.connections)
        await listener.stop(0)

    run(scenario())


def test_replies_that_nobody_takes_are_bounded_for_all_clients_together(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(send_buffer_bytes=NARROW_BYTES)) as node:
            node.listener.pool.unsent.bytes_max = 100_000
            deaf = [await node.narrow_client() for _ in range(4)]
            for client in deaf:
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
                client.send(b"b")
            await eventually(lambda: len(node.service.served) == len(deaf))
            await eventually(lambda: len(node.listener.connections) < len(deaf))
            await eventually(lambda: node.listener.pool.unsent.bytes <= 100_000)
            attentive = await node.client()
            attentive.send(b"e")
            assert await attentive.receive() == b"e"
            await node.listener.stop(0)
            await eventually(lambda: not node.listener.connections)
            assert node.listener.pool.unsent.bytes == 0

    run(scenario())


def test_a_reply_that_is_taken_is_owed_no_longer(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(send_buffer_bytes=NARROW_BYTES)) as node:
            client = await node.narrow_client()
            client.send(b"b")
            await eventually(lambda: node.listener.pool.unsent.bytes > 0)
            assert len(await client.receive()) == 4_000_000
            await eventually(lambda: node.listener.pool.unsent.bytes == 0)

    run(scenario())
