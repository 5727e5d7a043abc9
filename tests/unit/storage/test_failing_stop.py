"""Disks that fail while a store stops, or while something else fails: nothing is vouched for."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.model.ids import TopicPartition
from penstock.platform.disk import Buffer, Disk
from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore
from tests.unit.storage.logs import TOPIC_ID, batch, fill, put

ORDERS = TopicPartition("orders", 0)
PLAIN = LogConfig()


class Full(Disk):
    """Has no room for files whose names end like this, nor for new names that do."""

    suffix = "nothing"

    def _check(self, path: str) -> None:
        if path.endswith(self.suffix):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def write_at(self, path: str, data: Buffer, position: int) -> None:
        self._check(path)
        super().write_at(path, data, position)

    def rename(self, old: str, new: str) -> None:
        self._check(new)
        super().rename(old, new)


def open_store(*directories: Path, disk: Disk | None = None) -> LogStore:
    store = LogStore([str(each) for each in directories], node_id=1, cluster_id="c", disk=disk)
    store.open(lambda _: PLAIN)
    return store


@pytest.mark.parametrize("suffix", [".snapshot", ".timeindex", "leader-epoch-checkpoint.tmp"])
def test_a_stop_that_finds_no_room_is_not_a_clean_one(tmp_path: Path, suffix: str) -> None:
    disk = Full()
    store = open_store(tmp_path, disk=disk)
    for number in range(2):
        log = store.create("orders", number, TOPIC_ID, PLAIN)
        put(log, batch(producer_id=1, producer_epoch=0, sequence=0), epoch=3)
    disk.suffix = suffix
    store.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    store = open_store(tmp_path)
    log = store.logs[ORDERS]
    assert log.producers.by_id[1].last_sequence == 0
    assert log.epochs.latest == 3
    store.close(False)


def test_a_directory_that_fails_takes_its_logs_along_whatever_else_fails(tmp_path: Path) -> None:
    disk = Full()
    store = open_store(tmp_path / "one", tmp_path / "two", disk=disk)
    log = store.create(*ORDERS, TOPIC_ID, PLAIN)
    fill(log, 3)
    here = store.directory_of(log)
    there = next(each for each in store.directories if each is not here)
    store.begin_move(ORDERS, there)
    gone: list[TopicPartition] = []
    store.on_offline = lambda _, partitions: gone.extend(partitions)
    disk.suffix = "-delete"  # the copy in the other directory cannot be given up
    store.fail_directory(here, OSError(errno.EIO, "a broken disk"))
    assert gone == [ORDERS]
    assert store.logs == {}
    store.close(False)
