"""The controller learns where replicas lie."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from penstock.app.node import Node
from penstock.app.placements import misplaced
from penstock.model.ids import uuid_text
from penstock.platform.chance import SystemChance
from tests.unit.server.asking import asking, port_of, running_node

FAST = {"broker.heartbeat.interval.ms": "50"}


def told(node: Node, topic: str = "t") -> list[tuple[bytes, ...]]:
    """The directories that the metadata names, partition by partition."""
    partitions = node.broker.image.topics.by_name[topic].partitions
    return [state.directories for state in partitions.values()]


async def test_a_replica_on_a_new_disk_is_told_of_even_by_a_node_with_one_directory(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path, FAST) as node, asking(port_of(node)) as asker:
        await asker.create("t", 3)
        assert misplaced(node.broker) is None
    meta = tmp_path / "meta.properties"
    fresh = uuid_text(SystemChance().uuid())
    meta.write_text(re.sub(r"directory\.id=.*", f"directory.id={fresh}", meta.read_text()))
    async with running_node(tmp_path, FAST) as node:
        here = node.broker.store.directories[0].uuid
        assert uuid_text(here) == fresh
        async with asyncio.timeout(10):
            while told(node) != [(here,)] * 3:
                await asyncio.sleep(0.01)
        assert misplaced(node.broker) is None
