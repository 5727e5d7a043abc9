"""Accepting when the system cannot, when brokers need a place, and a few at a time."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any

import pytest

from penstock.net import acceptor
from penstock.net.admission import Admission, Bounds
from penstock.net.buffers import BufferPool
from penstock.net.listener import Limits, Listener
from tests.unit.net.conftest import Run
from tests.unit.net.scripted import Client, ScriptedService, eventually, running


class Exhausted:
    """A listening socket for which the system has no descriptor, for a while."""

    def __init__(self, sock: socket.socket, problem: int, times: int) -> None:
        self._sock = sock
        self._problem = problem
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def accept(self) -> Any:
        if self.times:
            self.times -= 1
            raise OSError(self._problem, os.strerror(self._problem))
        return self._sock.accept()


@pytest.mark.parametrize("problem", [errno.EMFILE, errno.ENETDOWN])
def test_what_the_system_cannot_do_now_is_tried_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, problem: int
) -> None:
    monkeypatch.setattr(acceptor, "PAUSE_SECONDS", 0.05)

    async def scenario() -> None:
        async with running() as node:
            accepting: Any = node.listener._acceptor
            accepting._sock = Exhausted(accepting._sock, problem, times=3)
            client = await node.client()
            client.send(b"e")
            assert await client.receive() == b"e"
            assert accepting._sock.times == 0

    run(scenario())


def test_a_broker_takes_the_place_of_the_client_that_was_not_used_for_longest(run: Run) -> None:
    async def scenario() -> None:
        admission = Admission(Bounds(connections_max=2), protected="BROKERS")
        brokers = Listener("BROKERS", BufferPool(1 << 20), Limits(), admission=admission)
        brokers.service = ScriptedService()
        brokers.bind("127.0.0.1", 0)
        await brokers.start()
        async with running(admission=admission) as node:
            forgotten, used = await node.client(), await node.client()
            for client in (forgotten, used):
                client.send(b"e")
                assert await client.receive() == b"e"
                await asyncio.sleep(0.01)
            third = await node.client()
            third.send(b"e")
            assert await third.hears_nothing()
            broker = Client(*await asyncio.open_connection("127.0.0.1", brokers.port))
            broker.send(b"e")
            assert await broker.receive() == b"e"
            assert await forgotten.is_closed()
            used.send(b"e")
            assert await used.receive() == b"e"
            assert await third.hears_nothing()
            broker.close()
            assert await third.receive() == b"e"
        await brokers.stop(0)

    run(scenario())


def test_a_storm_is_accepted_in_small_parts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    accept = acceptor.Acceptor._accept

    def counted(self: acceptor.Acceptor) -> None:
        before = len(self._arriving)
        accept(self)
        turns.append(len(self._arriving) - before)

    monkeypatch.setattr(acceptor.Acceptor, "_accept", counted)

    async def scenario() -> None:
        async with running() as node:
            storm = [socket.socket() for _ in range(50)]
            for each in storm:
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", node.listener.port))
            await eventually(lambda: len(node.listener.connections) == len(storm))
            assert max(turns) <= acceptor.ACCEPTED_AT_ONCE
            for each in storm:
                each.close()

    run(scenario())
