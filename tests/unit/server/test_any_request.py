"""Whatever a client sends, it gets an answer or is hung up on; the node never faults."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from pathlib import Path
from typing import cast

import pytest

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.net.connection import CloseConnection, Connection
from penstock.protocol.registry import API
from penstock.server.apis import HANDLERS
from tests.unit.server.asking import asking, batch, port_of, running_node
from tests.unit.server.random_requests import RandomRequests

REQUESTS = 1500
PATIENCE_SECONDS = 0.05


class FakeConnection:
    """As much of a connection as handlers look at."""

    listener_name = "PLAINTEXT"
    peer = ("127.0.0.1", 1)
    gate = None
    more_follow = False


@pytest.mark.parametrize("seed", range(3))
async def test_random_requests_are_answered_or_refused(tmp_path: Path, seed: int) -> None:
    requests = RandomRequests(seed)
    specs = [API[key] for key in sorted(HANDLERS)]
    directories = {"log.dirs": f"{tmp_path}/one,{tmp_path}/two"}
    async with running_node(tmp_path, directories) as node, asking(port_of(node)) as asker:
        await asker.create("t", 2)
        await asker.create("u", configs={"cleanup.policy": "compact"})
        service = node._listeners.for_clients[0].service
        connection = cast(Connection, FakeConnection())
        closed = 0
        for _ in range(REQUESTS):
            # Anything but CloseConnection would be a fault of the node's, and fails the test.
            try:
                reply = service.serve(connection, memoryview(bytearray(requests.frame(specs))))
                if isawaitable(reply):
                    await asyncio.wait((reply,), timeout=PATIENCE_SECONDS)
                    if not reply.cancel():
                        reply.result()
            except CloseConnection:
                closed += 1
        assert 0 < closed < REQUESTS
        async with asyncio.timeout(10):
            while not _takes_part(node):  # somebody may have unregistered it: it registers anew
                await asyncio.sleep(0.01)
        await asker.create("still-alive")
        assert (await asker.produce("still-alive", batch())).error_code == ErrorCode.NONE


def _takes_part(node: Node) -> bool:
    registered = node.broker.image.cluster.brokers.get(node.broker.node_id)
    return registered is not None and registered.active
