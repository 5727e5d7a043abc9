"""Delayed records where something rewrites the log under them: compaction, cuts, tiny limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.platform.workers import InlineWorkers
from penstock.records.builder import BatchBuilder
from penstock.replica import delay_parking
from penstock.replica.delay_delivery import cancel, deliver, move
from penstock.replica.outcomes import Appended, Refused
from penstock.replica.partition import Partition
from penstock.storage.compaction import Compactor
from penstock.storage.delay_index import DelayIndex
from penstock.storage.delay_snapshots import encode, reload_delays
from penstock.storage.retention import retain
from penstock.storage.store import LogStore
from tests.unit.replica.delay_scene import NODE, NOW, NoSyncs, Scene, batch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore([str(tmp_path / "data")], node_id=1, cluster_id="cluster")
    made.open()
    yield made
    made.close()


def follower_of(scene: Scene, directory: Path) -> Scene:
    """A replica that was given its part today, and has read all there is."""
    store = LogStore([str(directory)], node_id=2, cluster_id="cluster")
    store.open()
    made = Scene(store)
    made.partition.follow(1, 1, (1, NODE), (1, NODE))
    made.partition.append_fetched(scene.log.read_bytes(scene.log.start, 1 << 20), NOW)
    return made


def compact(scene: Scene) -> None:
    """Compaction is switched on, and does all that it can."""
    scene.partition.reconfigure(
        scene.log.config._replace(
            delay_enable=False,
            cleanup_compact=True,
            cleanup_delete=False,
            min_cleanable_dirty_ratio=0.0,
        )
    )
    scene.log.roll(NOW)
    compactor = Compactor(scene.log.context.disk, InlineWorkers())
    asyncio.run(compactor.run_once([scene.log], NOW))


def test_compaction_that_is_switched_on_later_neither_loses_nor_doubles(
    store: LogStore, tmp_path: Path
) -> None:
    scene = Scene(store)
    scene.send((b"waits", 900), (b"now", None))
    scene.send((b"delivered", 10))
    deliver(scene.partition, scene.read(scene.waiting[:1]), NOW + 10)
    scene.send((b"newest", None))  # all of them have the same key
    waiting = scene.waiting
    assert len(waiting) == 1
    compact(scene)
    other = follower_of(scene, tmp_path / "other")
    assert other.waiting == waiting, "a new replica knows what the old ones know"
    assert other.read(other.waiting)[0].body is not None
    reload_delays(scene.log, snapshot_max=-1)
    assert scene.waiting == waiting


def test_a_batch_that_comes_back_after_another_took_its_place_parks_its_records(
    store: LogStore, tmp_path: Path
) -> None:
    """The notice was replicated, its batch was not; who led then wrote something else, which is
    cut off again because the first leader came back."""
    first = Scene(store)
    first.send((b"waits", 900))
    sent = first.log.read_bytes(0, 1 << 20)
    ends = [len(data) for _, data in first.log.batches(0)]
    other = LogStore([str(tmp_path / "other")], node_id=2, cluster_id="cluster")
    other.open()
    second = Scene(other)
    second.partition.follow(1, 1, (1, NODE), (1, NODE))
    second.partition.append_fetched(sent[: ends[0]], NOW)
    second.partition.lead(2, (NODE,), (NODE,))
    second.partition.append(memoryview(bytearray(batch((b"other", None)))), NOW)
    assert second.waiting == []
    second.partition.follow(3, 1, (1, NODE), (1, NODE))
    second.partition.truncate_to(1, NOW)
    second.partition.append_fetched(sent[ends[0] :], NOW)
    assert second.waiting == first.waiting
    other.close()


def test_records_are_cancelled_however_small_a_topics_messages_are(store: LogStore) -> None:
    scene = Scene(store, message_max_bytes=150)
    for number in range(4):
        assert isinstance(scene.send((b"%d" % number, 900)), Appended)
    assert isinstance(cancel(scene.partition, scene.waiting, NOW), Appended)
    assert scene.waiting == []


def test_the_youngest_record_is_found_where_the_youngest_batch_has_none_left(
    store: LogStore,
) -> None:
    scene = Scene(store)
    builder = BatchBuilder()
    builder.append(b"k", b"later", NOW + 500, [("penstock-delay-ms", b"900")])
    scene.send((b"now", None))
    scene.partition.append(memoryview(bytearray(builder.build())), NOW)
    found = scene.log.find_max_timestamp()
    assert found is not None


def test_a_compressed_batch_without_delays_is_not_taken_apart(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken_apart(*_: object) -> None:
        raise AssertionError("a record was looked at")

    monkeypatch.setattr(delay_parking, "iterate", taken_apart)
    scene = Scene(store)
    assert isinstance(scene.send((b"a", None), (b"b", None), compression=4), Appended)
    assert [value for _, value in scene.readable()] == [b"a", b"b"]


def test_a_batch_of_absurdly_many_records_is_refused_before_it_holds_everybody_up(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_parking, "BATCH_RECORDS_MAX", 3)
    scene = Scene(store)
    some = [(b"v", 5), (b"v", None), (b"v", None)]
    assert isinstance(scene.send(*some), Appended)
    answer = scene.send(*some, (b"v", None))
    assert isinstance(answer, Refused)
    assert answer.error == ErrorCode.INVALID_RECORD
    assert "4 records" in (answer.message or "")
    assert isinstance(scene.send(*[(b"v", None)] * 4), Appended), "others may be as many"


def after_a_power_cut(tmp_path: Path, store: LogStore) -> Scene:
    """The same log again, of which nothing was synced."""
    store.close(clean=False)
    again = LogStore([str(tmp_path / "data")], node_id=1, cluster_id="cluster")
    again.open()
    found = Scene.__new__(Scene)
    log = again.get("t", 0)
    assert log is not None
    found.partition = Partition(NODE, log, log.start, NoSyncs())
    found.now = NOW
    return found


def test_files_that_nobody_vouches_for_are_not_used_later_either(
    store: LogStore, tmp_path: Path
) -> None:
    """A cut removed the file, and the power failed before that was durable."""
    scene = Scene(store)
    scene.send((b"a", 50))
    scene.send((b"b", 60))
    scene.send((b"c", 70))
    waiting = scene.waiting
    stale = DelayIndex()
    stale.waiting.put(NOW + 1, 777, 0)
    path = Path(scene.log.directory) / f"{scene.log.end - 3:020}.delayed"
    path.write_bytes(encode(stale))
    again = after_a_power_cut(tmp_path, store)
    assert again.waiting == waiting
    again.log.truncate_to(waiting[-1].place, NOW)
    assert again.waiting == waiting[:-1]
    again.log.close()


@pytest.mark.parametrize("delivered", [False, True])
def test_a_log_whose_file_was_lost_has_one_again(
    store: LogStore, tmp_path: Path, delivered: bool
) -> None:
    """Without one, what waits would be forgotten once its segment is synced, and not read again."""
    scene = Scene(store)
    scene.send((b"a", 50))
    if delivered:
        deliver(scene.partition, scene.read(scene.waiting), NOW + 50)
    waiting = scene.waiting
    directory = Path(scene.log.directory)
    for path in directory.glob("*.delayed"):
        path.unlink()
    again = after_a_power_cut(tmp_path, store)
    assert again.waiting == waiting
    assert list(directory.glob("*.delayed"))
    reload_delays(again.log)
    assert again.waiting == waiting
    again.log.close()


def test_a_restart_does_not_forget_that_a_move_is_not_committed(
    store: LogStore, tmp_path: Path
) -> None:
    """The old place is all that there is, if another leader does not have the new one."""
    scene = Scene(store, retention_ms=1_000)
    scene.send((b"long", 10_000))
    scene.log.roll(NOW)
    committed = scene.log.end
    move(scene.partition, scene.read(scene.waiting), NOW)
    store.close()
    again = LogStore([str(tmp_path / "data")], node_id=1, cluster_id="cluster")
    again.open()
    log = again.get("t", 0)
    assert log is not None
    log.config = scene.log.config
    log.high_watermark = committed
    assert retain(log, NOW + 5_000) == 0
    log.high_watermark = log.end
    assert retain(log, NOW + 5_000) == 1
    again.close()
