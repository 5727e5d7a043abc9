"""Those who have not logged in, and those who come too many or too fast, on both event loops."""

from __future__ import annotations

import asyncio
import struct

from penstock.net.admission import Admission, Bounds
from penstock.net.listener import Limits
from penstock.net.strangers import Strangers
from tests.unit.net.conftest import Run
from tests.unit.net.scripted import Client, GuardedService, Running, eventually, running


def guard(node: Running, seconds: float = 15.0, count: int = 1000, per_address: int = 200) -> None:
    """Give strangers other bounds."""
    listener = node.listener
    listener.strangers = Strangers(
        listener.loop, listener.complaints.refused, seconds, count, per_address
    )


async def logged_in(node: Running) -> Client:
    client = await node.client()
    client.send(b"h")
    assert await client.receive() == b"h"
    return client


def test_a_stranger_who_does_not_log_in_is_closed_and_who_did_is_not(run: Run) -> None:
    async def scenario() -> None:
        async with running(service=GuardedService()) as node:
            guard(node, seconds=0.3)
            known = await logged_in(node)
            stranger = await node.client()
            stranger.send(b"e1")  # saying something is not enough
            assert await stranger.receive() == b"e1"
            assert len(node.listener.strangers) == 1
            assert await stranger.is_closed()
            known.send(b"e2")
            assert await known.receive() == b"e2"
            assert len(node.listener.strangers) == 0

    run(scenario())


def test_a_strangers_frame_is_small_and_a_known_ones_is_not(run: Run) -> None:
    async def scenario() -> None:
        limits = Limits(frame_bytes_max=100_000, stranger_frame_bytes_max=1000)
        async with running(limits, GuardedService()) as node:
            stranger = await node.client()
            stranger.writer.write(struct.pack(">i", 1001))
            assert await stranger.is_closed()
            known = await logged_in(node)
            body = b"e" * 50_000
            known.send(body)
            assert await known.receive() == body

    run(scenario())


def test_too_many_strangers_cost_those_who_came_first(run: Run) -> None:
    async def scenario() -> None:
        async with running(service=GuardedService()) as node:
            guard(node, count=3)
            known = await logged_in(node)
            strangers = [await node.client() for _ in range(4)]
            assert await strangers[0].is_closed()
            assert await strangers[1].hears_nothing()
            known.send(b"e")
            assert await known.receive() == b"e"
            assert (await logged_in(node)) is not None

    run(scenario())


def test_an_address_has_fewer_strangers_than_all(run: Run) -> None:
    async def scenario() -> None:
        async with running(service=GuardedService()) as node:
            guard(node, per_address=2)
            strangers = [await node.client() for _ in range(3)]
            assert await strangers[0].is_closed()
            assert len(node.listener.strangers) == 2

    run(scenario())


def test_exhausted_memory_costs_strangers_first(run: Run) -> None:
    async def scenario() -> None:
        async with running(service=GuardedService(), memory_max=1_200_000) as node:
            known, stranger = await logged_in(node), await node.client()
            stranger.writer.write(struct.pack(">i", 200_000) + b"e" * 20_000)
            await eventually(lambda: node.listener.pool.borrowed_bytes > 100_000)
            known.writer.write(struct.pack(">i", 600_000) + b"e" * 300_000)
            assert await stranger.is_closed()
            known.writer.write(b"e" * 300_000)
            assert await known.receive() == b"e" * 600_000

    run(scenario())


def test_connections_come_in_at_the_rate_that_is_granted(run: Run) -> None:
    async def scenario() -> None:
        admission = Admission(Bounds(per_second_max=10, samples=2, sample_ms=100))
        async with running(admission=admission) as node:
            loop = asyncio.get_running_loop()
            began = loop.time()
            clients = [await node.client() for _ in range(10)]
            for client in clients:
                client.send(b"e")
                assert await client.receive() == b"e"
            # One at once, within the window of a tenth of a second, and ten a second thereafter.
            assert loop.time() - began > 0.5

    run(scenario())


def test_an_address_that_comes_too_fast_is_turned_away_late(run: Run) -> None:
    async def scenario() -> None:
        admission = Admission(Bounds(samples=2, sample_ms=300))
        async with running(admission=admission) as node:
            admission.grant_rates({"127.0.0.1": 4.0})
            first, second = await node.client(), await node.client()
            first.send(b"e")
            assert await first.receive() == b"e"
            assert await second.hears_nothing()
            assert await second.is_closed()

    run(scenario())


def test_sockets_that_are_turned_away_late_are_bounded_and_closed_with_the_listener(
    run: Run,
) -> None:
    async def scenario() -> None:
        admission = Admission(Bounds(samples=2, sample_ms=60_000))
        async with running(admission=admission) as node:
            admission.grant_rates({None: 0.001})
            clients = [await node.client() for _ in range(5)]
            await asyncio.sleep(0.1)
            await node.listener.stop(0)
            for client in clients:
                assert await client.is_closed()

    run(scenario())
