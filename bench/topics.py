"""Topics for one round of a case: made before it, removed after it."""

from __future__ import annotations

import uuid

from bench.rdkafka import ClientFailed
from tests.oracle import wire
from tests.oracle.nodes import Node


def create(node: Node, partitions: int, config: dict[str, str] | None = None) -> str:
    """A topic of a new name, led."""
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    with wire.Wire(node.port, 30) as client:
        error = wire.create_topic(client, topic, partitions, config)
    if error:
        raise ClientFailed(f"{node.name} refused to create a topic with error {error}")
    return topic


def delete(node: Node, topic: str) -> None:
    """Leave nothing to write back or to clean up during the next case."""
    with wire.Wire(node.port, 30) as client:
        wire.delete_topic(client, topic)
