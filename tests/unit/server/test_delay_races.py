"""A log that becomes another while its delayed records are being read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.server.delays import Delays
from penstock.storage.delay_batches import Row
from penstock.storage.delay_reading import Parked
from penstock.storage.log import Log
from penstock.storage.store import LogStore
from tests.unit.replica.delay_scene import NODE, NOW, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    store = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    store.open()
    yield Scene(store, retention_ms=1_000)
    store.close()


class Overtaken(Delays):
    """Reads so slowly that the partition is led by another in between, who wrote something else
    for the same time and at the same offset, and then by this node again."""

    def __init__(self, scene: Scene) -> None:
        clock = SimpleNamespace(now=lambda: NOW + 5_000)
        store = SimpleNamespace(context=SimpleNamespace())
        broker = SimpleNamespace(loop=asyncio.get_running_loop(), clock=clock, store=store)
        super().__init__(cast(Any, broker))
        self._scene = scene
        self.reads = 0

    async def read(self, source: Log, rows: list[Row], size_max: int) -> list[Parked]:
        found = await super().read(source, rows, size_max)
        self.reads += 1
        if self.reads == 1:
            partition = self._scene.partition
            partition.follow(1, 2, (2, NODE), (2, NODE))
            partition.truncate_to(0, NOW)
            partition.lead(2, (NODE,), (NODE,))
            self._scene.send((b"hers", 100))
        return found


async def test_what_another_leader_wrote_is_delivered_and_not_what_was_read_before(
    scene: Scene,
) -> None:
    scene.send((b"mine", 100))
    delays = Overtaken(scene)
    while await delays._deliver_some(scene.partition) is not None:
        pass
    assert [value for _, value in scene.readable()] == [b"hers"]
    delays.close()


async def test_what_another_leader_wrote_is_moved_and_not_what_was_read_before(
    scene: Scene,
) -> None:
    scene.send((b"mine", 100), *[(b"x" * 1000, None)] * 3)
    delays = Overtaken(scene)
    await delays._move_all(scene.partition)
    assert scene.waiting
    bodies = [each.body or b"" for each in scene.read(scene.waiting)]
    assert all(b"hers" in body for body in bodies)
    delays.close()
