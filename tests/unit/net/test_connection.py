"""One client's connection over a real socket, on both event loops."""

from __future__ import annotations

import asyncio
import os
import struct
from unittest.mock import Mock, patch

import pytest

from penstock.net.buffers import SHARED_BYTES
from penstock.net.connection import RUN_MAX, SLOTS_MAX, Connection
from penstock.net.listener import Limits
from tests.unit.net.conftest import Run
from tests.unit.net.encrypted import Keys, client_tls
from tests.unit.net.scripted import (
    LARGE_BYTES,
    MUTE_SECONDS,
    ScriptedService,
    SlowService,
    eventually,
    frame,
    running,
)


def test_a_frame_is_served_and_answered(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"e1")
            assert await client.receive() == b"e1"

    run(scenario())


class FaultyGate(ScriptedService):
    """Cannot tell who came in, by a fault of its own."""

    def gate(self, _: Connection) -> None:
        raise RuntimeError("a fault of our own")


@pytest.mark.parametrize("tls", [False, True])
def test_nobody_is_served_whose_gate_could_not_be_made(run: Run, tls: bool) -> None:
    """A connection without a gate is open to all: a fault on the way must not make one."""

    async def scenario() -> None:
        service = FaultyGate()
        async with running(service=service, tls=Keys() if tls else None) as node:
            client = await node.client(client_tls() if tls else None)
            client.send(b"e1")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.receive()
            assert service.served == []

    run(scenario())


def test_whoever_cannot_be_let_in_by_our_own_fault_is_told_by_closing(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            broken = Mock(side_effect=RuntimeError("a fault of our own"))
            with patch.object(node.listener, "admit", broken):
                client = await node.client()
                client.send(b"e1")
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await client.receive()
            client = await node.client()
            client.send(b"e2")
            assert await client.receive() == b"e2"

    run(scenario())


def test_pipelined_frames_are_answered_in_order(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            bodies = [b"e%d" % number for number in range(500)]
            client.send(*bodies)
            assert [await client.receive() for _ in bodies] == bodies

    run(scenario())


def test_bytes_that_trickle_in_make_the_same_frames(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            for byte in frame(b"e-slow") + frame(b"e-again"):
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0.001)
            assert await client.receive() == b"e-slow"
            assert await client.receive() == b"e-again"

    run(scenario())


def test_a_frame_larger_than_the_shared_buffer_comes_whole(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            body = b"e" + os.urandom(5 * SHARED_BYTES)
            client.send(b"e-before", body, b"e-after")
            assert await client.receive() == b"e-before"
            assert await client.receive() == body
            assert await client.receive() == b"e-after"
            assert node.listener.pool.borrowed_bytes == 0

    run(scenario())


def test_a_waiting_request_holds_back_those_behind_it(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"w1", b"e2", b"e3")
            await eventually(lambda: node.service.waiting)
            assert await client.hears_nothing()
            assert node.service.served == [b"w1"]
            node.service.release(b"w1")
            assert [await client.receive() for _ in range(3)] == [b"w1", b"e2", b"e3"]

    run(scenario())


def test_overlapping_requests_begin_together_and_are_answered_in_order(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"o1", b"o2", b"o3")
            await eventually(lambda: len(node.service.waiting) == 3)
            node.service.release(b"o3")
            node.service.release(b"o2")
            assert await client.hears_nothing()
            node.service.release(b"o1")
            assert [await client.receive() for _ in range(3)] == [b"o1", b"o2", b"o3"]

    run(scenario())


def test_what_came_together_is_offered_together_and_answered_in_order(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            node.service.together = 2
            client = await node.client()
            client.send(b"l1", b"l2", b"l3", b"l4", b"l5", b"e6", b"l7")
            await eventually(lambda: len(node.service.waiting) == 5)
            assert node.service.runs == [
                [b"l1", b"l2", b"l3", b"l4", b"l5"],
                [b"l3", b"l4", b"l5"],
            ]
            assert node.service.served == [b"l1", b"l2", b"l3", b"l4", b"l5"]
            for number in (4, 2, 1, 5, 3):
                node.service.release(b"l%d" % number)
            assert [await client.receive() for _ in range(5)] == [b"l%d" % n for n in range(1, 6)]
            assert await client.receive() == b"e6"
            await eventually(lambda: b"l7" in node.service.waiting)
            node.service.release(b"l7")
            assert await client.receive() == b"l7"

    run(scenario())


def test_who_is_not_served_together_is_served_alone_and_asked_once_per_read(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"o1", b"o2", b"o3")
            await eventually(lambda: len(node.service.waiting) == 3)
            assert node.service.runs == [[b"o1", b"o2", b"o3"]]
            for number in (1, 2, 3):
                node.service.release(b"o%d" % number)
            assert [await client.receive() for _ in range(3)] == [b"o1", b"o2", b"o3"]

    run(scenario())


def test_no_more_is_offered_together_than_may_wait(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            node.service.together = RUN_MAX
            client = await node.client()
            bodies = [b"l%d" % number for number in range(SLOTS_MAX + 10)]
            client.send(*bodies)
            await eventually(lambda: len(node.service.waiting) == SLOTS_MAX)
            assert max(map(len, node.service.runs)) == RUN_MAX
            assert await client.hears_nothing()
            for body in bodies:
                await eventually(lambda body=body: body in node.service.waiting)
                assert len(node.service.waiting) <= SLOTS_MAX
                node.service.release(body)
                assert await client.receive() == body

    run(scenario())


def test_what_came_before_a_broken_frame_is_served_together(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            node.service.together = 9
            client = await node.client()
            client.writer.write(frame(b"l1") + frame(b"l2") + b"\xff\xff\xff\xff")
            await eventually(lambda: len(node.service.waiting) == 2)
            assert node.service.runs == [[b"l1", b"l2"]]
            assert node.service.served == [b"l1", b"l2"]

    run(scenario())


def test_nothing_overlaps_a_request_that_must_be_alone(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"o1", b"w2", b"o3")
            await eventually(lambda: node.service.waiting)
            assert await client.hears_nothing()
            assert node.service.served == [b"o1"]
            node.service.release(b"o1")
            await eventually(lambda: b"w2" in node.service.waiting)
            assert node.service.served == [b"o1", b"w2"]
            node.service.release(b"w2")
            await eventually(lambda: b"o3" in node.service.waiting)
            node.service.release(b"o3")
            assert [await client.receive() for _ in range(3)] == [b"o1", b"w2", b"o3"]

    run(scenario())


def test_a_request_without_a_reply_leaves_no_gap(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"n1", b"e2", b"n3", b"e4")
            assert [await client.receive() for _ in range(2)] == [b"e2", b"e4"]

    run(scenario())


def test_the_number_of_waiting_requests_is_bounded(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            bodies = [b"o%d" % number for number in range(SLOTS_MAX + 50)]
            client.send(*bodies)
            await eventually(lambda: len(node.service.waiting) == SLOTS_MAX)
            await asyncio.sleep(0.05)
            assert len(node.service.waiting) == SLOTS_MAX
            for body in bodies:
                await eventually(lambda body=body: body in node.service.waiting)
                node.service.release(body)
            assert [await client.receive() for _ in bodies] == bodies

    run(scenario())


def test_a_client_that_does_not_read_is_not_read_from(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.writer.transport.pause_reading()
            client.send(*[b"b"] * 50)
            await asyncio.sleep(0.3)
            # The kernel's buffers and one reply or two are all that is ever begun.
            assert len(node.service.served) < 10
            client.writer.transport.resume_reading()
            for _ in range(50):
                assert len(await client.receive()) == LARGE_BYTES

    run(scenario())


def test_a_client_may_close_its_sending_half_and_still_be_answered(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"w1", b"e2")
            client.writer.write_eof()
            await eventually(lambda: node.service.waiting)
            node.service.release(b"w1")
            assert [await client.receive() for _ in range(2)] == [b"w1", b"e2"]
            assert await client.is_closed()

    run(scenario())


def test_a_large_reply_arrives_whole_after_a_half_close(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"b")
            client.writer.write_eof()
            await asyncio.sleep(0.1)
            assert await client.receive() == b"b" * LARGE_BYTES
            assert await client.is_closed()

    run(scenario())


def test_a_half_close_inside_a_frame_closes(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.writer.write(frame(b"e-whole") + frame(b"e-cut")[:6])
            client.writer.write_eof()
            assert await client.receive() == b"e-whole"
            assert await client.is_closed()
            await eventually(lambda: not node.listener.connections)
            assert node.listener.pool.borrowed_bytes == 0

    run(scenario())


def test_a_client_that_goes_away_cancels_what_it_waited_for(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"w1")
            await eventually(lambda: node.service.waiting)
            client.reset()
            await eventually(lambda: node.service.waiting[b"w1"].cancelled())
            assert not node.listener.connections

    run(scenario())


def test_a_negative_length_closes_the_connection_and_no_other(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            bystander, client = await node.client(), await node.client()
            client.writer.write(struct.pack(">i", -1))
            assert await client.is_closed()
            bystander.send(b"e1")
            assert await bystander.receive() == b"e1"

    run(scenario())


def test_a_length_above_the_limit_closes_before_memory_is_taken(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(frame_bytes_max=1000)) as node:
            client = await node.client()
            client.writer.write(struct.pack(">i", 1001))
            assert await client.is_closed()
            assert node.listener.pool.borrowed_bytes == 0

    run(scenario())


def test_replies_before_a_broken_frame_still_leave(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.writer.write(frame(b"e1") + struct.pack(">i", -5))
            assert await client.receive() == b"e1"
            assert await client.is_closed()

    run(scenario())


@pytest.mark.parametrize("waiting", [[b"w1"], [b"o1", b"l2"]])
def test_what_waits_is_answered_before_a_broken_frame_closes(
    run: Run, waiting: list[bytes]
) -> None:
    """What a producer is not told of it sends again, though it was stored."""

    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.writer.write(b"".join(map(frame, waiting)) + b"\xff\xff\xff\xff" + frame(b"e"))
            await eventually(lambda: len(node.service.waiting) == len(waiting))
            assert await client.hears_nothing()
            for body in reversed(waiting):
                node.service.release(body)
            assert [await client.receive() for _ in waiting] == waiting
            assert await client.is_closed()
            assert node.service.served == waiting
            await eventually(lambda: not node.listener.connections)
            assert node.listener.pool.borrowed_bytes == 0

    run(scenario())


def test_the_service_may_ask_to_close(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"x", b"e2")
            assert await client.is_closed()
            assert node.service.served == [b"x"]

    run(scenario())


def test_our_own_fault_closes_its_connection_and_no_other(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            bystander, client = await node.client(), await node.client()
            client.send(b"!", b"e2")
            assert await client.is_closed()
            bystander.send(b"e1")
            assert await bystander.receive() == b"e1"

    run(scenario())


def test_our_own_fault_behind_a_waiting_request_closes_too(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"w1", b"!")
            await eventually(lambda: node.service.waiting)
            node.service.release(b"w1")
            assert await client.receive() == b"w1"
            assert await client.is_closed()

    run(scenario())


def test_a_waiting_request_that_fails_closes(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"w1")
            await eventually(lambda: node.service.waiting)
            node.service.waiting[b"w1"].set_exception(RuntimeError("a fault of our own"))
            assert await client.is_closed()

    run(scenario())


def test_a_waiting_request_that_is_given_up_closes(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"w1", b"e2")
            await eventually(lambda: node.service.waiting)
            node.service.waiting[b"w1"].cancel()
            assert await client.is_closed()

    run(scenario())


def test_one_clients_flood_does_not_hold_up_another(run: Run) -> None:
    async def scenario() -> None:
        service = SlowService(seconds=0.005)
        async with running(service=service) as node:
            flood, other = await node.client(), await node.client()
            bodies = [b"e%d" % number for number in range(200)]
            flood.send(*bodies)
            await eventually(lambda: service.served)
            other.send(b"e-other")
            assert await other.receive() == b"e-other"
            assert len(service.served) < 100
            assert [await flood.receive() for _ in bodies] == bodies

    run(scenario())


def test_a_muted_connection_is_answered_and_read_again_when_its_time_is_over(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            loop = asyncio.get_running_loop()
            client = await node.client()
            client.send(b"m1", b"e2", b"e3")
            began = loop.time()
            assert await client.receive() == b"m1"
            assert await client.hears_nothing()
            assert node.service.served == [b"m1"]
            client.send(b"e4")
            assert [await client.receive() for _ in range(3)] == [b"e2", b"e3", b"e4"]
            assert loop.time() - began >= MUTE_SECONDS - 0.01

    run(scenario())


def test_what_waited_is_answered_while_its_connection_is_muted(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"o1")
            await eventually(lambda: node.service.waiting)
            client.send(b"m2", b"e3")
            node.service.release(b"o1")
            assert await client.receive() == b"o1"
            assert await client.receive() == b"m2"
            assert await client.hears_nothing()
            assert await client.receive() == b"e3"

    run(scenario())


def test_the_longer_of_two_mutes_counts(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            loop = asyncio.get_running_loop()
            client = await node.client()
            client.send(b"e1")
            assert await client.receive() == b"e1"
            (connection,) = node.listener.connections
            connection.mute(0.3)
            connection.mute(0.1)
            began = loop.time()
            client.send(b"e2")
            assert await client.receive() == b"e2"
            assert loop.time() - began > 0.25

    run(scenario())


def test_stopping_does_not_wait_for_a_mute_to_end(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            loop = asyncio.get_running_loop()
            client = await node.client()
            client.send(b"e1")
            assert await client.receive() == b"e1"
            next(iter(node.listener.connections)).mute(60)
            began = loop.time()
            await node.listener.stop(5000)
            assert loop.time() - began < 3
            assert await client.is_closed()

    run(scenario())


def test_a_connection_muted_for_longer_than_it_may_be_idle_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with running(Limits(idle_ms_max=200)) as node:
            client = await node.client()
            client.send(b"e1")
            assert await client.receive() == b"e1"
            next(iter(node.listener.connections)).mute(60)
            assert await client.is_closed()

    run(scenario())


def test_however_many_flood_a_client_with_one_request_waits_for_one_of_each(run: Run) -> None:
    async def scenario() -> None:
        async with running(service=SlowService(0.002)) as node:
            flooding = [await node.client() for _ in range(8)]
            for client in flooding:
                client.send(*[b"n"] * 500)
            modest = await node.client()
            served = node.service.served
            waits = []
            for _ in range(5):
                before = len(served)
                modest.send(b"e")
                assert await modest.receive() == b"e"
                waits.append(len(served) - before)
            # A turn's time and a request of each, not the time of eight: at 20 ms a client, as
            # many as 80 requests would come first. On a slow machine it is fewer either way.
            assert min(waits) < 40

    run(scenario())
