"""What goes on by the clock goes on for everybody else when one disk fails, or fills up."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from penstock.model.ids import TopicPartition
from penstock.platform.disk import Buffer, Disk
from penstock.storage.checkpoints import RECOVERY_POINTS, read_offsets
from penstock.storage.log import Log
from tests.unit.app.test_node import two_directories
from tests.unit.server.asking import asking, batch, port_of, running_node

OFTEN = {
    "log.flush.offset.checkpoint.interval.ms": "20",
    "replica.high.watermark.checkpoint.interval.ms": "20",
}


async def checkpointed(directory: str, partition: TopicPartition, offset: int) -> None:
    async with asyncio.timeout(10):
        while read_offsets(Disk(), directory, RECOVERY_POINTS).get(partition) != offset:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("fails", ["before", "then"])
async def test_checkpoints_go_on_beside_a_directory_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    async with running_node(tmp_path, {**two_directories(tmp_path), **OFTEN}) as node:
        async with asking(port_of(node)) as asker:
            await asker.create("t", partitions=2)
        store = node.broker.store
        bad, good = sorted(store.logs.values(), key=lambda log: "/one/" in log.directory)
        broken = store.directory_of(bad)

        def fail(log: Log) -> None:
            if log is bad:
                raise OSError(errno.EIO, "a broken disk")

        monkeypatch.setattr(Log, "write_indexes", fail)
        if fails == "before":
            store.fail_directory(broken, OSError(errno.EIO, "a broken disk"))
        async with asking(port_of(node)) as asker:
            await asker.produce("t", batch(3), index=good.partition)
        good.sync()
        await checkpointed(os.path.dirname(good.directory), good.topic_partition, 3)
        assert not broken.online


async def test_a_full_disk_costs_a_checkpoint_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Disk.write_at
    refused: list[str] = []

    def full(disk: Disk, path: str, data: Buffer, position: int) -> None:
        if "checkpoint" in path and len(refused) < 4:
            refused.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        plain(disk, path, data, position)

    async with running_node(tmp_path, OFTEN) as node, asking(port_of(node)) as asker:
        await asker.create("t")
        await asker.produce("t", batch(3))
        log = node.broker.store.logs[TopicPartition("t", 0)]
        log.sync()
        monkeypatch.setattr(Disk, "write_at", full)
        async with asyncio.timeout(10):
            while len(refused) < 4:
                await asyncio.sleep(0.02)
        await checkpointed(str(tmp_path), log.topic_partition, 3)
        assert (await asker.produce("t", batch())).base_offset == 3
