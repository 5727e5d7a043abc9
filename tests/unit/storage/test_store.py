"""The logs of a node come, go, and outlive the node."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from penstock.model.ids import TopicPartition, uuid_text
from penstock.platform.directory_lock import DirectoryInUse
from penstock.platform.disk import AHEAD_FROM, Disk
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory, WrongDirectory, read_meta
from penstock.storage.log_slice import cut_slice
from penstock.storage.store import LogStore, NoDirectory
from tests.unit.storage.logs import NOW, TOPIC_ID, batch, contents, fill, put

CLUSTER = "Zm9vYmFyYmF6cXV4MTIzNA"
ORDERS = TopicPartition("orders", 0)
SMALL = LogConfig(segment_bytes=1000, file_delete_delay_ms=0)


def make_store(*directories: Path, node_id: int = 1, disk: Disk | None = None) -> LogStore:
    return LogStore(
        [str(each) for each in directories], node_id=node_id, cluster_id=CLUSTER, disk=disk
    )


def open_store(*directories: Path, disk: Disk | None = None) -> LogStore:
    store = make_store(*directories, disk=disk)
    store.open(lambda _: SMALL)
    return store


# ── over restarts ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("clean", [True, False])
def test_logs_outlive_a_restart(tmp_path: Path, clean: bool) -> None:
    store = open_store(tmp_path)
    for number in range(3):
        fill(store.create("orders", number, TOPIC_ID, SMALL), 20 + number)
    expected = {key: contents(log) for key, log in store.logs.items()}
    store.close(clean)
    store = open_store(tmp_path)
    assert {key: contents(log) for key, log in store.logs.items()} == expected
    log = store.get("orders", 1)
    assert log is not None and log.topic_id == TOPIC_ID
    assert log.recovery_point == (21 if clean else 0)
    store.close(False)


def test_a_thousand_logs_load_in_threads(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(1000):
        put(store.create("t", number, TOPIC_ID, SMALL), batch(number % 3 + 1))
    store.close(clean=False)
    store = open_store(tmp_path)
    assert {log.end for log in store.logs.values()} == {1, 2, 3} and len(store.logs) == 1000
    assert store.disk.open_files == 0
    store.close(clean=True)
    store = open_store(tmp_path)
    assert sum(log.recovery_point for log in store.logs.values()) == 1999
    store.close(False)


def test_the_broker_epoch_of_a_clean_stop_comes_back_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store.clean_broker_epoch is None
    store.close(True, broker_epoch=42)
    store = open_store(tmp_path)
    assert store.clean_broker_epoch == 42
    store.close(False)
    store = open_store(tmp_path)
    assert store.clean_broker_epoch is None
    store.close(False)


def test_checkpoints_bring_back_starts_recovery_points_and_high_watermarks(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(*ORDERS, TOPIC_ID, LogConfig())
    fill(log, 30)
    log.sync()
    fill(log, 10)
    log.advance_start(7)
    log.high_watermark = 25
    store.checkpoint_pass()
    store.close(False)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"
    store = open_store(tmp_path)
    log = store.logs[ORDERS]
    assert (log.start, log.end, log.recovery_point, log.high_watermark) == (7, 40, 30, 25)
    assert store.high_watermarks == {ORDERS: 25}
    store.close(False)


def test_a_start_at_the_first_segment_is_not_checkpointed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create(*ORDERS, TOPIC_ID, SMALL)
    store.checkpoint_pass()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 0\n"
    store.close(False)


def test_the_thread_that_opens_the_store_is_the_one_that_bounds_descriptors(
    tmp_path: Path,
) -> None:
    disk = Disk(open_files_max=5)
    open_files = []

    def run() -> None:
        store = open_store(tmp_path, disk=disk)
        for number in range(20):
            fill(store.create("t", number, TOPIC_ID, SMALL), 1)
        open_files.append(disk.open_files)
        store.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert open_files == [5]


# ── directories ─────────────────────────────────────────────────────────────────────────────────


def test_the_names_of_a_new_directory_are_durable(tmp_path: Path) -> None:
    synced: list[str] = []

    class Watched(Disk):
        def sync_directory(self, path: str) -> None:
            synced.append(path)

    open_store(tmp_path / "of" / "penstock", disk=Watched()).close(False)
    assert {str(tmp_path), f"{tmp_path}/of"} <= set(synced)
    synced.clear()
    open_store(tmp_path / "of" / "penstock", disk=Watched()).close(False)
    assert synced == []


def test_a_new_directory_gets_an_identity_that_it_keeps(tmp_path: Path) -> None:
    store = open_store(tmp_path / "new")
    uuid = store.directories[0].uuid
    store.close()
    assert read_meta(Disk(), str(tmp_path / "new")) == {
        "version": "1",
        "cluster.id": CLUSTER,
        "node.id": "1",
        "directory.id": uuid_text(uuid),
    }
    store = open_store(tmp_path / "new")
    assert store.directories[0].uuid == uuid
    store.close()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("node.id=2", "says node.id=2, but this node has node.id=1"),
        ("cluster.id=other", "says cluster.id=other"),
        ("version=0", "has version 0"),
    ],
)
def test_somebody_elses_directory_is_refused(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "meta.properties").write_text(f"#\n{line}\n")
    with pytest.raises(WrongDirectory, match=why):
        open_store(tmp_path)
    (tmp_path / "meta.properties").unlink()
    open_store(tmp_path).close()  # and the lock was given back


def test_a_directory_in_use_is_refused_and_the_others_are_given_back(tmp_path: Path) -> None:
    first = open_store(tmp_path / "b")
    with pytest.raises(DirectoryInUse):
        open_store(tmp_path / "a", tmp_path / "b")
    open_store(tmp_path / "a").close()
    first.close()


def test_new_logs_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    second = store.directories[1].uuid
    for number in range(3):
        store.create("pinned", number, TOPIC_ID, SMALL, second)
    for number in range(6):
        store.create("t", number, TOPIC_ID, SMALL)
    placed = [store.directory_of(log).path for log in store.logs.values()]
    assert [placed.count(each.path) for each in store.directories] == [3, 3, 3]
    with pytest.raises(NoDirectory):
        store.create("t", 9, TOPIC_ID, SMALL, bytes(15) + b"\x09")
    store.close()


def test_a_failing_directory_takes_only_its_own_logs(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", tmp_path / "b")
    gone: list[tuple[LogDirectory, list[TopicPartition]]] = []
    store.on_offline = lambda directory, keys: gone.append((directory, keys))
    first = store.create("t", 0, TOPIC_ID, SMALL)
    second = store.create("t", 1, TOPIC_ID, SMALL)
    first.context.on_fault(first, OSError(errno.EIO, "input/output error"))
    assert gone == [(store.directories[0], [TopicPartition("t", 0)])]
    assert not store.directories[0].online
    with pytest.raises(OSError, match="closed for good"):
        fill(first, 1)
    fill(second, 3)
    assert list(store.logs) == [TopicPartition("t", 1)]
    third = store.create("t", 2, TOPIC_ID, SMALL)
    assert store.directory_of(third).path == str(tmp_path / "b")
    store.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_a_full_disk_does_not_take_the_directory_offline(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(*ORDERS, TOPIC_ID, SMALL)
    log.context.on_fault(log, OSError(errno.ENOSPC, "no space left on device"))
    assert store.directories[0].online
    fill(log, 1)
    store.close()


def test_a_failed_sync_takes_the_directory_offline_whatever_the_error(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(*ORDERS, TOPIC_ID, SMALL)
    store.sync_failed(log, OSError(errno.ENOSPC, "no space left on device"))
    assert not store.directories[0].online
    store.close()


def test_a_directory_that_cannot_be_used_is_offline_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    store = open_store(tmp_path / "file" / "logs", tmp_path / "good")
    assert [each.online for each in store.directories] == [False, True]
    store.create(*ORDERS, TOPIC_ID, SMALL)
    store.close()
    with pytest.raises(NoDirectory, match="no log directory works"):
        open_store(tmp_path / "file" / "logs")


def test_a_log_that_cannot_be_loaded_takes_its_directory_offline(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a", tmp_path / "b")
    for number in range(4):
        fill(store.create("t", number, TOPIC_ID, SMALL), 3)
    store.close()
    bad = next((tmp_path / "a").glob("t-*/00000000000000000000.log"))
    bad.unlink()
    bad.mkdir()
    store = open_store(tmp_path / "a", tmp_path / "b")
    assert [each.online for each in store.directories] == [False, True]
    assert len(store.logs) == 2
    store.close()


# ── deleting ────────────────────────────────────────────────────────────────────────────────────


def test_a_deleted_log_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    config = LogConfig(file_delete_delay_ms=60_000)
    fill(store.create(*ORDERS, TOPIC_ID, config), 3)
    store.delete(ORDERS)
    assert store.get(*ORDERS) is None
    [directory] = [each for each in os.listdir(tmp_path) if each.startswith("orders")]
    assert directory.startswith("orders-0.") and directory.endswith("-delete")
    assert store.take_trash(store.clock.now()) is None
    store.create(*ORDERS, TOPIC_ID, config)  # the name is free again
    work = store.take_trash(store.clock.now() + 60_001)
    assert work is not None
    work()
    assert [each for each in os.listdir(tmp_path) if each.startswith("orders")] == ["orders-0"]
    store.close()


def test_who_is_still_reading_a_deleted_log_may_finish(tmp_path: Path) -> None:
    """A partition may move elsewhere while its records are on their way to a consumer."""
    store = open_store(tmp_path)
    log = store.create(*ORDERS, TOPIC_ID, LogConfig(file_delete_delay_ms=60_000))
    fill(log, 3)
    piece = cut_slice(log.active.file, 0, 1 << 20, True)
    assert piece is not None
    before = piece.read()
    store.delete(ORDERS)
    assert piece.read() == before
    work = store.take_trash(store.clock.now() + 60_001)
    assert work is not None
    work()
    with pytest.raises(OSError, match="closed"):
        piece.read()
    store.close()


def test_a_store_that_closes_lets_go_of_what_waited_to_be_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(*ORDERS, TOPIC_ID, LogConfig())
    fill(log, 3)
    file = log.active.file
    store.delete(ORDERS)
    store.close()
    assert file.closed


def test_a_log_that_was_on_its_way_out_is_removed_after_a_restart(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create(*ORDERS, TOPIC_ID, LogConfig())
    store.delete(ORDERS)
    store.close()
    store = open_store(tmp_path)
    assert not store.logs
    work = store.take_trash(NOW)
    assert work is not None
    work()
    assert not [each for each in os.listdir(tmp_path) if each.startswith("orders")]
    store.close()


def test_a_stray_log_is_set_aside_and_kept(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store.create(*ORDERS, TOPIC_ID, SMALL), 3)
    store.set_aside(ORDERS)
    store.close()
    store = open_store(tmp_path)
    assert not store.logs and store.take_trash(NOW) is None
    assert [each for each in os.listdir(tmp_path) if each.endswith("-stray")]
    store.close()


def test_the_longest_topic_name_can_be_deleted(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    key = TopicPartition("t" * 249, 12345)
    store.create(*key, TOPIC_ID, SMALL)
    store.delete(key)
    assert all(len(each) <= 255 for each in os.listdir(tmp_path))
    store.close()


# ── passes ──────────────────────────────────────────────────────────────────────────────────────


def test_the_retention_pass_goes_log_by_log(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(3):
        log = store.create("t", number, TOPIC_ID, SMALL._replace(retention_ms=1))
        fill(log, 30)
        log.high_watermark = log.end
    steps = list(store.retention_pass(NOW + 1000))
    assert len(steps) == 3 and all(step > 1 for step in steps)
    assert all(log.start == 30 for log in store.logs.values())
    store.close()


def test_flush_ms_names_logs_with_something_unsynced(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    busy = store.create("t", 0, TOPIC_ID, SMALL._replace(flush_ms=100))
    store.create("t", 1, TOPIC_ID, SMALL._replace(flush_ms=100))
    fill(store.create("t", 2, TOPIC_ID, SMALL), 1)
    fill(busy, 1)
    assert store.flush_due(NOW) == [busy]
    assert store.flush_due(NOW + 99) == []
    assert store.flush_due(NOW + 100) == [busy]
    busy.sync()
    assert store.flush_due(NOW + 1000) == []
    store.close()


def test_spare_blocks_of_a_log_are_given_back_when_nothing_more_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.platform.blocks._is_ext4", lambda *_: True)
    monkeypatch.setattr("penstock.platform.blocks._FREE_MIN", 0)
    large = LogConfig(message_max_bytes=AHEAD_FROM * 2)
    store = open_store(tmp_path)
    quiet, busy = (store.create("t", number, TOPIC_ID, large) for number in range(2))
    fill(store.create("t", 2, TOPIC_ID, large), 1)  # small ones have none
    for log in (quiet, busy):
        put(log, batch(value=bytes(AHEAD_FROM)))
    expected = contents(quiet)

    def has_spare(log: Log) -> bool:
        path = log.active.path(".log")
        store.disk.sync_path(path)
        about = os.stat(path)
        assert about.st_size == log.size
        return about.st_blocks * 512 > log.size + 64 * 1024

    for _ in range(3):
        assert has_spare(busy)
        store.trim_quiet()
        put(busy, batch())
    assert not has_spare(quiet) and contents(quiet) == expected
    put(quiet, batch())
    assert has_spare(quiet)
    store.trim_quiet()
    assert has_spare(quiet)
    store.trim_quiet()
    assert not has_spare(quiet) and len(contents(quiet)) == 2
    store.close()


def test_a_disk_that_cannot_trim_goes_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.platform.blocks._is_ext4", lambda *_: True)
    monkeypatch.setattr("penstock.platform.blocks._FREE_MIN", 0)
    store = open_store(tmp_path / "a", tmp_path / "b")
    log = store.create("t", 0, TOPIC_ID, LogConfig(message_max_bytes=AHEAD_FROM * 2))
    put(log, batch(value=bytes(AHEAD_FROM)))

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    store.trim_quiet()
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        store.trim_quiet()
    assert store.get("t", 0) is None
    store.close(False)


def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.create(*ORDERS, TOPIC_ID, SMALL)
    put(log, batch(producer_id=1, producer_epoch=0, sequence=0))
    assert store.expire_producers(NOW + 1000) == 0
    assert store.expire_producers(NOW + 2 * 86_400_000) == 1
    store.close()
