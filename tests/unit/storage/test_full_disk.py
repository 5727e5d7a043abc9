"""A disk that is full, or that only lets us read."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.storage.log_config import LogConfig
from penstock.storage.store import LogStore, NoDirectory
from tests.unit.storage.logs import TOPIC_ID, batch, contents, put

pytestmark = pytest.mark.root

CONFIG = LogConfig(segment_bytes=100_000, index_interval_bytes=1000, file_delete_delay_ms=0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)], check=True)
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def open_store(path: Path) -> LogStore:
    store = LogStore([str(path)], node_id=1, cluster_id="c")
    store.open(lambda _: CONFIG)
    return store


def fill_up(store: LogStore) -> None:
    log = store.logs["t", 0]  # type: ignore[index]
    while True:
        put(log, batch(value=os.urandom(3000)))


def test_a_full_disk_keeps_what_it_has_and_takes_more_when_there_is_room(small_disk: Path) -> None:
    store = open_store(small_disk)
    log = store.create("t", 0, TOPIC_ID, CONFIG)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    with pytest.raises(OSError) as refusal:
        fill_up(store)
    assert refusal.value.errno == errno.ENOSPC
    assert store.directories[0].online
    before, end = contents(log), log.end
    assert end > 100 and len(before) == end
    for _ in range(3):
        with pytest.raises(OSError):
            fill_up(store)
    assert contents(log)[:end] == before

    ballast.unlink()
    end = log.end
    for _ in range(20):
        put(log, batch(value=os.urandom(3000)))
    assert log.end == end + 20
    expected = contents(log)
    assert expected[: len(before)] == before
    store.close(clean=False)
    store = open_store(small_disk)
    assert contents(store.logs["t", 0]) == expected  # type: ignore[index]
    store.close()


def test_deleting_makes_room_on_a_full_disk(small_disk: Path) -> None:
    store = open_store(small_disk)
    store.create("t", 0, TOPIC_ID, CONFIG)
    with pytest.raises(OSError):
        fill_up(store)
    with pytest.raises(OSError):
        store.create("other", 0, TOPIC_ID, CONFIG)
        put(store.logs["other", 0], batch(value=os.urandom(8000)))  # type: ignore[index]
    for key in list(store.logs):
        store.delete(key)
    work = store.take_trash(store.clock.now() + 1)
    assert work is not None
    work()
    put(store.create("t", 0, TOPIC_ID, CONFIG), batch(value=os.urandom(8000)))
    store.close()


def test_a_directory_that_cannot_be_written_is_offline(small_disk: Path) -> None:
    store = open_store(small_disk)
    put(store.create("t", 0, TOPIC_ID, CONFIG), batch())
    store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(NoDirectory, match=r"[Rr]ead-only"):
        open_store(small_disk)
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    store = open_store(small_disk)
    assert store.logs["t", 0].end == 1  # type: ignore[index]
    store.close()


def test_a_full_disk_is_left_to_others_where_they_can_take_over(small_disk: Path) -> None:
    store = open_store(small_disk)
    store.create("t", 0, TOPIC_ID, CONFIG)
    gone: list[object] = []
    store.on_offline = lambda _, partitions: gone.extend(partitions)
    store.gives_way = lambda directory: directory is store.directories[0]
    log = store.logs["t", 0]  # type: ignore[index]
    with pytest.raises(OSError) as refusal:
        fill_up(store)
    assert refusal.value.errno == errno.ENOSPC
    assert gone == [log.topic_partition]
    assert not store.directories[0].online
    store.close()
