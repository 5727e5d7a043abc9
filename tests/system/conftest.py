"""Fixtures for tests that mistreat a broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.oracle import wire
from tests.oracle.nodes import Node


class Bystander:
    """A client that does nothing wrong, and must not suffer from those who do."""

    def __init__(self, node: Node) -> None:
        self.topic = f"bystander-{uuid.uuid4().hex[:8]}"
        self.connection = wire.Wire(node.port)
        assert wire.create_topic(self.connection, self.topic) == 0
        self._sent: list[bytes] = []

    def check(self) -> None:
        """Write one more record, and read it back, over the connection opened long ago."""
        batch = wire.batch([f"record {len(self._sent)}".encode()])
        answer = wire.produce(self.connection, self.topic, batch)
        assert answer == wire.Produced(0, len(self._sent))
        self._sent.append(batch)
        found = wire.fetch(self.connection, self.topic, answer.base_offset)
        # All but the base offset and the leader epoch, which are the broker's to write.
        assert (found.error, found.records[16:]) == (0, batch[16:])


@pytest.fixture
def bystander(broker: Node) -> Iterator[Bystander]:
    """Before the test and after it, somebody else is served."""
    client = Bystander(broker)
    client.check()
    yield client
    client.check()
    client.connection.close()
    assert broker.running


@pytest.fixture
def rude(broker: Node, bystander: Bystander) -> Iterator[wire.Wire]:
    """A connection of its own to send nonsense through."""
    with wire.Wire(broker.port) as connection:
        yield connection
