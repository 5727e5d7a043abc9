"""A truncation never leaves a checkpoint behind that vouches for what was cut."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.model.ids import TopicPartition
from penstock.platform.disk import Disk
from penstock.storage import checkpoints
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory
from penstock.storage.store import LogStore
from tests.unit.storage.logs import NOW, TOPIC_ID, contents, fill

KEY = TopicPartition("orders", 0)
SMALL = LogConfig(segment_bytes=1000)


def open_store(path: Path) -> LogStore:
    store = LogStore([str(path)], node_id=1, cluster_id="c")
    store.open(lambda _: SMALL)
    return store


def kept(path: Path, name: str) -> int | None:
    return checkpoints.read_offsets(Disk(), str(path), name).get(KEY)


def test_a_cut_below_the_recovery_point_lowers_its_checkpoint_first(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(*KEY, TOPIC_ID, SMALL)
    fill(log, 40)
    log.sync()
    store.checkpoint_pass()
    assert kept(tmp_path, checkpoints.RECOVERY_POINTS) == 40
    log.truncate_to(25, NOW)
    assert kept(tmp_path, checkpoints.RECOVERY_POINTS) == 25
    fill(log, 40)
    expected = contents(log)
    store.close(clean=False)
    store = open_store(tmp_path)
    assert store.logs[KEY].recovery_point == 25
    assert contents(store.logs[KEY]) == expected
    store.close()


def test_a_cut_above_the_recovery_point_writes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(*KEY, TOPIC_ID, SMALL)
    fill(log, 10)
    log.sync()
    store.checkpoint_pass()
    fill(log, 10)
    before = (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_mtime_ns
    log.truncate_to(15, NOW)
    assert (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_mtime_ns == before
    store.close()


def test_a_log_that_begins_anew_below_its_start_survives_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(*KEY, TOPIC_ID, SMALL)
    fill(log, 40)
    log.advance_start(30)
    store.checkpoint_pass()
    assert kept(tmp_path, checkpoints.LOG_STARTS) == 30
    log.truncate_all(5, NOW)
    fill(log, 3)
    expected = contents(log)
    store.close(clean=False)
    store = open_store(tmp_path)
    assert (store.logs[KEY].start, contents(store.logs[KEY])) == (5, expected)
    store.close()


def test_a_checkpoint_that_cannot_be_lowered_stops_the_cut_and_takes_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    log = store.create(*KEY, TOPIC_ID, SMALL)
    fill(log, 20)
    log.sync()
    store.checkpoint_pass()

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(Disk, "write_atomic", broken)
    with pytest.raises(OSError, match="input/output"):
        log.truncate_to(5, NOW)
    assert not store.directories[0].online
    assert (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size > 0
    store.close(clean=False)


def test_an_older_checkpoint_never_comes_after_a_newer_one(tmp_path: Path) -> None:
    directory = LogDirectory(Disk(), str(tmp_path))
    older = directory.offsets_writer(checkpoints.RECOVERY_POINTS, {KEY: 40})
    newer = directory.offsets_writer(checkpoints.RECOVERY_POINTS, {KEY: 25})
    newer()
    older()
    assert kept(tmp_path, checkpoints.RECOVERY_POINTS) == 25
