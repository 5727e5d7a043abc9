"""Delivering, cancelling and moving delayed records, and what disks and followers do meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.platform.disk import File
from penstock.records.builder import BatchBuilder
from penstock.records.compression import ZSTD
from penstock.replica.delay_delivery import cancel, deliver, move
from penstock.replica.outcomes import Appended, Refused
from penstock.storage.delay_snapshots import SAVED_SMALL
from penstock.storage.retention import expired_to, retain
from penstock.storage.store import LogStore
from tests.unit.replica.delay_scene import NODE, NOW, Scene


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    made = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    made.open()
    yield made
    made.close()


@pytest.fixture
def scene(store: LogStore) -> Scene:
    return Scene(store)


def deliver_all(scene: Scene) -> Appended | Refused | None:
    return deliver(scene.partition, scene.read(scene.waiting), scene.now)


def test_what_is_due_is_delivered_in_its_order_with_key_headers_and_the_time(scene: Scene) -> None:
    scene.send((b"second", 20), (b"third", 20), (b"first", 10))
    scene.now = NOW + 30
    assert isinstance(deliver_all(scene), Appended)
    assert [value for _, value in scene.readable()] == [b"first", b"second", b"third"]
    head, records = scene.batches()[-1]
    assert (head.producer_id, head.count) == (-1, 3)
    assert {record.timestamp for record in records} == {NOW + 30}
    assert bytes(records[0].key or b"") == b"k"
    assert records[0].headers == [("mine", b"1"), ("penstock-delay-ms", b"10")]
    assert scene.waiting == []
    assert deliver_all(scene) is None


def test_null_keys_and_values_come_back_as_they_went(scene: Scene) -> None:
    builder = BatchBuilder()
    builder.append(None, None, NOW, [("penstock-delay-ms", b"5"), ("empty", None)])
    scene.partition.append(memoryview(bytearray(builder.build())), NOW)
    deliver_all(scene)
    (record,) = scene.batches()[-1][1]
    assert (record.key, record.value) == (None, None)
    assert record.headers == [("penstock-delay-ms", b"5"), ("empty", None)]


def test_deliveries_have_the_topics_codec_and_kind_of_time(store: LogStore) -> None:
    scene = Scene(store, compression_type="zstd", timestamp_append=True)
    scene.send((b"value" * 100, 5))
    answer = deliver_all(scene)
    assert isinstance(answer, Appended)
    assert answer.append_time == scene.now
    head, records = scene.batches()[-1]
    assert head.compression == ZSTD
    assert head.is_append_time
    assert bytes(records[0].value or b"") == b"value" * 100


def test_what_was_cancelled_after_it_was_read_is_not_delivered(scene: Scene) -> None:
    scene.send((b"a", 5), (b"b", 5))
    read = scene.read(scene.waiting)
    assert isinstance(cancel(scene.partition, scene.waiting[:1], NOW), Appended)
    assert isinstance(deliver(scene.partition, read, NOW), Appended)
    assert [value for _, value in scene.readable()] == [b"b"]


def test_records_of_a_transaction_are_delivered_after_its_commit_and_never_after_an_abort(
    scene: Scene,
) -> None:
    for producer_id in (7, 8):
        scene.send_in_txn(
            (b"%d" % producer_id, 5), producer_id=producer_id, producer_epoch=0, base_sequence=0
        )
    assert scene.waiting == []
    scene.partition.append_marker(7, 0, 0, True, NOW)
    scene.partition.append_marker(8, 0, 0, False, NOW)
    deliver_all(scene)
    assert scene.readable() == [(scene.log.end - 1, b"7")]


def test_too_few_replicas_and_another_leader_keep_everything_waiting(scene: Scene) -> None:
    scene.send((b"a", 5))
    scene.partition.under_min = True
    assert deliver_all(scene) == Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    scene.partition.under_min = False
    scene.partition.step_down(1, 2)
    assert deliver_all(scene) == Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert len(scene.waiting) == 1


def test_a_full_disk_loses_nothing_and_doubles_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.send((b"a", 5))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    end = scene.log.end
    with monkeypatch.context() as patched:
        patched.setattr(File, "append", full)
        for result in (deliver_all(scene), scene.send((b"b", 5)), scene.send((b"c", None))):
            assert isinstance(result, Refused)
            assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (scene.log.end, len(scene.waiting)) == (end, 1)
    assert isinstance(deliver_all(scene), Appended)
    assert [value for _, value in scene.readable()] == [b"a"]


def test_what_retention_would_delete_is_moved_and_keeps_its_name(store: LogStore) -> None:
    scene = Scene(store, retention_ms=1_000, file_delete_delay_ms=0)
    scene.send((b"long", 10_000), (b"short", 50))
    (short, long) = scene.waiting
    deliver(scene.partition, scene.read([short]), NOW)
    scene.log.roll(NOW)
    scene.now += 5_000
    assert retain(scene.log, scene.now) == 0, "what waits is not deleted"
    end = expired_to(scene.log, scene.now)
    assert end == scene.log.end
    assert isinstance(move(scene.partition, scene.read([long]), scene.now), Appended)
    assert retain(scene.log, scene.now) == 1
    assert scene.log.start == end
    (moved,) = scene.waiting
    assert (moved.due, moved.id) == (long.due, long.id)
    deliver_all(scene)
    assert [value for _, value in scene.readable()] == [b"long"]


def test_a_segment_is_kept_until_followers_have_what_was_moved_out_of_it(store: LogStore) -> None:
    scene = Scene(store, retention_ms=1_000)
    scene.send((b"long", 10_000))
    scene.log.roll(NOW)
    move(scene.partition, scene.read(scene.waiting), NOW)
    scene.log.high_watermark = scene.log.active.base
    assert retain(scene.log, NOW + 5_000) == 0
    scene.log.high_watermark = scene.log.end
    assert retain(scene.log, NOW + 5_000) == 1


def test_deleted_records_are_not_delivered(scene: Scene) -> None:
    scene.send((b"a", 5))
    read = scene.read(scene.waiting)
    scene.partition.delete_to(scene.log.end)
    assert scene.waiting == []
    assert deliver(scene.partition, read, NOW) is None


def test_what_the_index_has_and_the_log_lost_is_given_up(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.send((b"a", 5))
    assert scene.log.delays is not None
    scene.log.delays.waiting.put(NOW + 1, 77, 999)
    assert isinstance(deliver_all(scene), Appended)
    assert "1 delayed records are lost" in caplog.text
    assert [row.id for row in scene.waiting] == [1]


def test_a_follower_knows_the_same_from_the_leaders_bytes(scene: Scene, tmp_path: Path) -> None:
    scene.send((b"a", 50), (b"b", 70), (b"now", None))
    scene.send_in_txn((b"c", 60), producer_id=7, producer_epoch=0, base_sequence=0)
    deliver(scene.partition, scene.read(scene.waiting[:1]), NOW)
    scene.partition.append_marker(7, 0, 0, True, NOW)
    data = scene.log.read_bytes(0, 1 << 20)
    for piece in (len(data), 100):
        other = LogStore([str(tmp_path / f"other-{piece}")], node_id=2, cluster_id="cluster")
        other.open()
        follower = Scene(other).partition
        follower.follow(1, 1, (1, NODE), (1, NODE))
        at = 0
        while at < len(data):  # in pieces that cut batches, as fetches do
            before = follower.log.end
            grown = piece
            while follower.log.end == before:
                follower.append_fetched(data[at : at + grown], NOW)
                grown += piece
            at = sum(len(raw) for _, raw in follower.log.batches(0))
        assert follower.log.delays is not None
        assert list(follower.log.delays.waiting.rows_from(-1)) == scene.waiting
        other.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_knows_what_waits(tmp_path: Path, clean: bool) -> None:
    store = LogStore([str(tmp_path / "data")], node_id=1, cluster_id="cluster")
    store.open()
    scene = Scene(store, segment_bytes=4_000)
    for number in range(50):
        scene.send((b"%d" % number * 20, 1_000 - number), (b"now", None))
        if number % 7 == 0:
            deliver(scene.partition, scene.read(scene.waiting[:1]), NOW)
    waiting = scene.waiting
    assert 0 < len(waiting) < SAVED_SMALL
    store.close(clean=clean)
    again = LogStore([str(tmp_path / "data")], node_id=1, cluster_id="cluster")
    again.open()
    log = again.get("t", 0)
    assert log is not None
    assert log.delays is not None
    assert list(log.delays.waiting.rows_from(-1)) == waiting
    files = list((tmp_path / "data" / "t-0").glob("*.delayed"))
    assert 1 <= len(files) <= 4
    again.close()


def test_a_log_that_is_cut_forgets_what_was_cut(scene: Scene) -> None:
    scene.send((b"a", 50))
    scene.send((b"b", 60))
    two = scene.waiting
    delivered = scene.log.end
    deliver(scene.partition, scene.read(two[:1]), NOW)
    assert len(scene.waiting) == 1
    scene.log.truncate_to(delivered, NOW)
    assert scene.waiting == two
    scene.log.truncate_to(two[1].place, NOW)
    assert scene.waiting == two[:1]
    scene.log.truncate_all(100, NOW)
    assert scene.waiting == []
