"""Replies that are told on the spot: to callbacks, to tasks, and to connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.net.late_reply import LateReply
from tests.unit.net.conftest import Run
from tests.unit.net.scripted import eventually, running


def test_who_waits_is_told_before_the_maker_goes_on() -> None:
    reply: LateReply[int] = LateReply()
    told: list[object] = []
    reply.add_done_callback(lambda done: told.append(done.result()))
    reply.set_result(7)
    assert told == [7] and reply.done() and not reply.cancelled()
    reply.add_done_callback(lambda done: told.append(done.result()))
    assert told == [7, 7], "who comes later is told at once"
    with pytest.raises(asyncio.InvalidStateError):
        reply.set_result(8)
    assert not reply.cancel() and reply.result() == 7


def test_a_reply_that_is_not_there_has_no_result() -> None:
    with pytest.raises(asyncio.InvalidStateError):
        LateReply[int]().result()


def test_a_fault_of_one_who_is_told_is_not_the_makers(caplog: pytest.LogCaptureFixture) -> None:
    reply: LateReply[int] = LateReply()
    told: list[int] = []

    def stumble(_: LateReply[int]) -> None:
        raise KeyError("ours")

    reply.add_done_callback(stumble)
    reply.add_done_callback(lambda done: told.append(done.result()))
    reply.set_result(7)
    assert told == [7]
    [record] = caplog.records
    assert record.exc_info is not None and record.exc_info[0] is KeyError


def test_what_is_made_of_it_is_there_with_it() -> None:
    reply: LateReply[int] = LateReply()
    text = reply.then(str)
    assert not text.done()
    reply.set_result(7)
    assert text.result() == "7"


def test_what_cannot_be_made_of_it_is_told_to_who_waits_for_that() -> None:
    reply: LateReply[int] = LateReply()
    inverse = reply.then(lambda number: 1 // number)
    reply.set_result(0)
    assert isinstance(inverse.exception(), ZeroDivisionError)
    failed: LateReply[int] = LateReply()
    further = failed.then(str)
    failed.set_exception(OSError("the disk"))
    with pytest.raises(OSError, match="the disk"):
        further.result()


@pytest.mark.parametrize("which", [0, 1])
def test_giving_up_one_gives_up_the_other(which: int) -> None:
    reply: LateReply[int] = LateReply()
    both: tuple[LateReply[Any], LateReply[Any]] = (reply, reply.then(str))
    assert both[which].cancel()
    assert both[0].cancelled() and both[1].cancelled()


async def test_a_task_may_wait_for_it_and_gives_it_up_when_it_ends() -> None:
    async def wait(reply: LateReply[int]) -> int:
        return await reply

    reply: LateReply[int] = LateReply()
    task = asyncio.create_task(wait(reply))
    await asyncio.sleep(0)
    reply.set_result(7)
    assert await task == 7 and await reply == 7
    lost: LateReply[int] = LateReply()
    task = asyncio.create_task(wait(lost))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lost.cancelled()


def test_replies_leave_in_the_order_of_their_requests(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"l1", b"l2", b"o3", b"l4")
            await eventually(lambda: len(node.service.waiting) == 4)
            for body in (b"l4", b"o3", b"l2"):
                node.service.release(body)
            assert await client.hears_nothing()
            node.service.release(b"l1")
            assert [await client.receive() for _ in range(4)] == [b"l1", b"l2", b"o3", b"l4"]

    run(scenario())


def test_no_request_begins_before_whoever_made_the_reply_is_done(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"l1", b"e2")  # the second may not overlap the first: it is put aside
            await eventually(lambda: node.service.waiting)
            node.service.release(b"l1")
            assert node.service.served == [b"l1"]
            assert [await client.receive() for _ in range(2)] == [b"l1", b"e2"]

    run(scenario())


def test_what_a_lost_connection_waited_for_is_given_up(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"l1", b"l2")
            await eventually(lambda: len(node.service.waiting) == 2)
            client.reset()
            await eventually(lambda: not node.listener.connections)
            assert all(reply.cancelled() for reply in node.service.waiting.values())

    run(scenario())


def test_a_reply_that_failed_closes_the_connection(run: Run) -> None:
    async def scenario() -> None:
        async with running() as node:
            client = await node.client()
            client.send(b"l1")
            await eventually(lambda: node.service.waiting)
            node.service.waiting[b"l1"].set_exception(RuntimeError("a fault of our own"))
            assert await client.is_closed()

    run(scenario())
