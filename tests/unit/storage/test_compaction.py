from __future__ import annotations

import asyncio
import errno
import os
import time
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from penstock.platform import disk as disk_module
from penstock.platform.workers import InlineWorkers, ThreadWorkers
from penstock.records.batch import read_head, seal
from penstock.records.builder import BatchBuilder
from penstock.storage import names
from penstock.storage.checkpoints import read_offsets
from penstock.storage.compaction import CHECKPOINT, Compactor
from penstock.storage.compaction_plan import plan_of
from penstock.storage.log_config import FOREVER
from tests.unit.storage.compaction_bench import CONFIG, DAY, PARTITION, Bench

LOG_NAME = str(PARTITION)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(str(tmp_path))


def test_the_newest_value_of_each_key_stays_at_its_offset(bench: Bench) -> None:
    bench.append([(b"a", b"1"), (b"b", b"1")])
    bench.append([(b"a", b"2"), (b"c", b"1")])
    bench.roll()
    bench.append([(b"b", b"2")])
    bench.roll()
    done = bench.compact()
    assert done is not None and done.end == 5
    assert bench.records() == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]


@pytest.mark.parametrize("codec", range(5))
def test_batches_keep_their_codec_offsets_and_timestamps(bench: Bench, codec: int) -> None:
    before = bench.append([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], compression=codec)
    bench.roll()
    assert bench.compact() is not None
    (after,) = bench.heads()
    assert after.compression == codec
    assert (after.base_offset, after.last_offset) == (before.base_offset, before.last_offset)
    assert (after.max_timestamp, after.leader_epoch) == (before.max_timestamp, before.leader_epoch)
    assert bench.records() == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_the_active_segment_is_left_alone(bench: Bench) -> None:
    bench.append([(b"a", b"1")])
    bench.append([(b"a", b"2")])
    assert bench.compact() is None
    assert len(bench.records()) == 2


def test_nothing_above_the_high_watermark_is_touched(bench: Bench) -> None:
    bench.append([(b"a", b"1")])
    bench.roll()
    bench.append([(b"a", b"2")])
    bench.roll()
    bench.log.high_watermark = 1
    assert plan_of(bench.log, None, bench.now).first_uncleanable == 1
    bench.log.high_watermark = 0
    assert bench.compact() is None


def test_small_segments_become_one(bench: Bench) -> None:
    for number in range(6):
        bench.append([(b"k%d" % number, b"v")])
        bench.roll()
    assert bench.compact() is not None
    assert [segment.base for segment in bench.log.segments] == [0, 6]
    assert len(bench.records()) == 6


def test_segments_are_not_grouped_beyond_the_segment_size(tmp_path: Path) -> None:
    bench = Bench(str(tmp_path), CONFIG._replace(segment_bytes=2500))
    for number in range(4):
        bench.append([(b"k%d" % number, b"v" * 1000)])
        bench.roll()
    assert bench.compact() is not None
    assert [segment.base for segment in bench.log.segments] == [0, 2, 4]


def test_records_without_a_key_go(bench: Bench) -> None:
    bench.append([(None, b"written before the topic was compacted"), (b"a", b"1")])
    bench.roll()
    bench.compact()
    assert bench.records() == [(1, b"a", b"1")]


class TestTombstones:
    def test_they_take_the_value_at_once_and_stay_for_slow_readers(self, bench: Bench) -> None:
        bench.append([(b"a", b"1")])
        bench.append([(b"a", None)])
        bench.roll()
        bench.compact()
        assert bench.records() == [(1, b"a", None)]
        (head,) = bench.heads()
        assert head.delete_horizon == bench.now + bench.config.delete_retention_ms

    def test_they_go_when_the_horizon_has_passed(self, bench: Bench) -> None:
        bench.append([(b"a", None), (b"b", b"1")])
        bench.roll()
        bench.compact()
        horizon = bench.heads()[0].delete_horizon
        bench.now += DAY - 1
        bench.append([(b"c", b"1")])
        bench.roll()
        bench.compact()
        assert (0, b"a", None) in bench.records()
        assert bench.heads()[0].delete_horizon == horizon  # set once, never moved
        bench.now += 1
        bench.append([(b"d", b"1")])
        bench.roll()
        bench.compact()
        assert b"a" not in bench.values()
        assert bench.values() == {b"b": b"1", b"c": b"1", b"d": b"1"}

    def test_timestamps_survive_the_horizon_in_the_head(self, bench: Bench) -> None:
        bench.append([(b"a", None), (b"b", b"1")])
        bench.roll()
        bench.compact()
        (head,) = bench.heads()
        assert head.max_timestamp == bench.now
        from penstock.records.record import iterate

        ((_, batch),) = bench.log.batches(0)
        assert {record.timestamp for record in iterate(batch)} == {bench.now}


class TestWhen:
    def test_a_log_waits_for_the_dirty_ratio(self, tmp_path: Path) -> None:
        bench = Bench(str(tmp_path), CONFIG._replace(min_cleanable_dirty_ratio=0.5))
        bench.append([(b"k%d" % n, b"v" * 100) for n in range(10)])
        bench.roll()
        assert bench.compact() is not None
        bench.append([(b"k0", b"v")])
        bench.roll()
        assert bench.compact() is None
        for _ in range(10):
            bench.append([(b"k%d" % n, b"v" * 100) for n in range(10)])
        bench.roll()
        assert bench.compact() is not None

    def test_the_longest_lag_overrides_the_ratio(self, tmp_path: Path) -> None:
        config = CONFIG._replace(min_cleanable_dirty_ratio=0.99, max_compaction_lag_ms=1000)
        bench = Bench(str(tmp_path), config)
        bench.append([(b"a", b"1" * 1000)])
        bench.roll()
        bench.now += 2000
        bench.compact()
        bench.append([(b"a", b"2")])
        bench.roll()
        assert bench.compact() is None
        bench.now += 1001
        assert bench.compact() is not None

    def test_young_segments_wait_for_the_shortest_lag(self, tmp_path: Path) -> None:
        bench = Bench(str(tmp_path), CONFIG._replace(min_compaction_lag_ms=1000))
        bench.append([(b"a", b"1"), (b"a", b"2")])
        bench.roll()
        bench.now += 500
        bench.append([(b"a", b"3")])
        bench.roll()
        assert bench.compact() is None
        bench.now += 501
        done = bench.compact()
        assert done is not None and done.end == 2  # the second segment is too young still
        assert bench.records() == [(1, b"a", b"2"), (2, b"a", b"3")]

    def test_a_clean_log_is_left_alone(self, bench: Bench) -> None:
        bench.append([(b"a", b"1")])
        bench.roll()
        assert bench.compact() is not None
        assert bench.compact() is None

    def test_a_round_reads_no_faster_than_it_may(self, bench: Bench) -> None:
        bench.append([(b"a", b"x" * 100_000), (b"b", b"x" * 100_000)])
        bench.roll()
        bench.compactor = Compactor(bench.disk, InlineWorkers(), bytes_per_second_max=1_000_000)
        began = time.monotonic()
        assert bench.compact() is not None
        assert time.monotonic() - began > 0.4  # read twice: for the map, and to copy

    def test_topics_that_are_not_compacted_are_left_alone(self, tmp_path: Path) -> None:
        bench = Bench(str(tmp_path), CONFIG._replace(cleanup_compact=False))
        bench.append([(b"a", b"1"), (b"a", b"2")])
        bench.roll()
        assert bench.compact() is None

    def test_the_defaults_are_never_overdue(self, bench: Bench) -> None:
        assert CONFIG.max_compaction_lag_ms == FOREVER
        bench.append([(b"a", b"1")])
        bench.roll()
        assert not plan_of(bench.log, None, bench.now).overdue


class TestProgress:
    def test_how_far_a_log_is_clean_survives_a_restart(self, bench: Bench) -> None:
        bench.append([(b"a", b"1")])
        bench.roll()
        bench.compact()
        assert read_offsets(bench.disk, bench.root, CHECKPOINT) == {PARTITION: 1}
        text = Path(bench.root, CHECKPOINT).read_text()
        assert text == "0\n1\ntopic 0 1\n"
        bench.reopen()
        bench.compactor = Compactor(bench.disk, InlineWorkers())
        assert bench.compact() is None

    def test_a_checkpoint_beyond_the_log_starts_over(self, bench: Bench) -> None:
        bench.append([(b"a", b"1"), (b"a", b"2")])
        bench.roll()
        assert plan_of(bench.log, 99, bench.now).first_dirty == 0

    def test_a_map_that_is_too_small_takes_several_rounds(self, tmp_path: Path) -> None:
        bench = Bench(str(tmp_path))
        bench.compactor = Compactor(bench.disk, InlineWorkers(), memory_max=0)
        for _ in range(3):
            for start in range(0, 2000, 100):
                bench.append([(b"k%d" % n, b"v") for n in range(start, start + 100)])
            bench.roll()
        rounds = 0
        ends = []
        while (done := bench.compact()) is not None:
            rounds += 1
            ends.append(done.end)
            assert len(bench.values()) == 2000
        assert rounds > 1 and ends == sorted(set(ends))
        assert [offset for offset, _, _ in bench.records()] == list(range(4000, 6000))

    def test_one_batch_with_more_keys_than_the_map_holds_is_given_up(self, bench: Bench) -> None:
        bench.compactor = Compactor(bench.disk, InlineWorkers(), memory_max=0)
        bench.append([(b"k%d" % n, b"v") for n in range(1000)])
        bench.roll()
        assert bench.compact() is None
        assert "more keys" in bench.compactor.uncleanable[PARTITION]
        assert len(bench.records()) == 1000


class TestProducers:
    def test_the_last_batch_of_a_producer_stays_for_its_sequence(self, bench: Bench) -> None:
        producer = {"producer_id": 7, "producer_epoch": 2}
        bench.append([(b"a", b"1"), (b"b", b"1")], base_sequence=0, **producer)
        bench.append([(b"a", b"2"), (b"b", b"2")], base_sequence=2, **producer)
        bench.append([(b"a", b"3"), (b"b", b"3")])
        bench.roll()
        bench.compact()
        empty, _ = bench.heads()
        assert (empty.base_offset, empty.last_offset, empty.count) == (2, 3, 0)
        assert (empty.producer_id, empty.producer_epoch, empty.last_sequence) == (7, 2, 3)
        for path in Path(bench.directory).glob("*.snapshot"):
            path.unlink()
        log = bench.reopen()
        assert log.producers.check(7, 2, 4, 4) is None
        assert log.producers.by_id[7].last_offset == 3

    def test_the_batch_at_the_end_of_a_round_stays_for_its_offset(self, bench: Bench) -> None:
        bench.append([(b"a", b"1")])
        bench.append([(None, b"goes")])
        bench.roll()
        bench.compact()
        assert [(head.base_offset, head.count) for head in bench.heads()] == [(0, 1), (1, 0)]

    def test_aborted_records_go_and_their_marker_stays_for_a_while(self, bench: Bench) -> None:
        producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
        bench.append([(b"a", b"1")])
        bench.append([(b"a", b"aborted")], base_sequence=0, **producer)
        bench.end_txn(7, commit=False)
        bench.append([(b"b", b"1")], base_sequence=1, **producer)
        bench.end_txn(7, commit=True)
        bench.roll()
        bench.compact()
        assert bench.records() == [(0, b"a", b"1"), (3, b"b", b"1")]
        assert [head.base_offset for head in bench.heads() if head.is_control] == [2, 4]
        index = bench.log.segments[0].path(names.TXN_INDEX)
        assert os.path.getsize(index) == 34

        bench.append([(b"c", b"1")])  # a second round: nothing of the aborted one is left
        bench.roll()
        bench.compact()
        markers = {head.base_offset: head for head in bench.heads() if head.is_control}
        assert markers[2].delete_horizon == bench.now + DAY
        assert markers[4].delete_horizon is None  # its data is still there
        assert not os.path.exists(bench.log.segments[0].path(names.TXN_INDEX))

        bench.now += DAY
        bench.append([(b"d", b"1")])
        bench.roll()
        bench.compact()
        assert [head.base_offset for head in bench.heads() if head.is_control] == [4]
        assert bench.values() == {b"a": b"1", b"b": b"1", b"c": b"1", b"d": b"1"}

    def test_an_aborted_value_replaces_nothing(self, bench: Bench) -> None:
        bench.append([(b"a", b"committed")])
        bench.append(
            [(b"a", b"aborted")],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        bench.end_txn(7, commit=False)
        bench.roll()
        bench.compact()
        assert bench.values() == {b"a": b"committed"}

    def test_an_open_transaction_holds_compaction_back(self, bench: Bench) -> None:
        bench.append([(b"a", b"1")])
        bench.roll()
        bench.append(
            [(b"a", b"2")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        bench.roll()
        plan = plan_of(bench.log, None, bench.now)
        assert plan.first_uncleanable == 1


def one_batch(bench: Bench, codec: int) -> bytes:
    builder = BatchBuilder(base_offset=bench.log.end, leader_epoch=0, compression=codec)
    builder.append(b"a", b"1", bench.now)
    return builder.build()


def test_nothing_old_loses_its_name_before_the_new_is_durable(bench: Bench) -> None:
    for number in range(3):
        bench.append([(b"a", b"%d" % number), (b"k%d" % number, b"v")])
        bench.append(
            [(b"a", b"t")],
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
            transactional=True,
        )
        bench.end_txn(7, commit=False)
        bench.roll()
    events: list[tuple[str, str]] = []
    real_rename, real_sync = os.rename, os.fdatasync

    def rename(old: str, new: str) -> None:
        events.append(("rename", os.path.basename(new)))
        real_rename(old, new)

    def fdatasync(fd: int) -> None:
        events.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
        real_sync(fd)

    def sync_directory(path: str) -> None:
        events.append(("sync", os.path.basename(path)))

    with (
        mock.patch.object(os, "rename", rename),
        mock.patch.object(os, "fdatasync", fdatasync),
        mock.patch.object(bench.disk, "sync_directory", sync_directory),
    ):
        assert bench.compact() is not None
    stem = names.stem(0)
    suffixes = (".log", ".index", ".timeindex", ".txnindex")
    swapped = [events.index(("rename", f"{stem}{suffix}.swap")) for suffix in suffixes]
    synced = [events.index(("sync", f"{stem}{suffix}.cleaned")) for suffix in suffixes]
    announced = events.index(("sync", LOG_NAME))
    gone = [at for at, event in enumerate(events) if event[1].endswith(".deleted")]
    assert max(synced) < min(swapped)
    assert max(swapped) < announced < min(gone)
    assert max(gone) < events.index(("rename", f"{stem}.log"))


class TestTrouble:
    def test_a_rotten_batch_is_not_given_a_fresh_checksum(self, bench: Bench) -> None:
        bench.append([(b"a", b"1"), (b"a", b"2")])
        bench.append([(b"b", b"1"), (b"b", b"2")])
        bench.roll()
        path = bench.log.segments[0].file.path
        data = bytearray(Path(path).read_bytes())
        data[-3] ^= 0xFF
        Path(path).write_bytes(data)
        assert bench.compact() is None
        assert "rotten" in bench.compactor.uncleanable[PARTITION]
        assert Path(path).read_bytes() == data
        assert not list(Path(bench.directory).glob("*.cleaned"))

    @pytest.mark.parametrize("codec", [0, 4])
    def test_records_that_nobody_can_read_are_left_as_they_are(
        self, bench: Bench, codec: int
    ) -> None:
        # A topic that was not compacted takes batches by their heads.
        batch = bytearray(one_batch(bench, codec))
        batch[-4:] = b"\xff" * 4
        seal(batch, 0, len(batch))
        bench.append_batch(bytes(batch))
        bench.roll()
        assert bench.compact() is None
        assert PARTITION in bench.compactor.uncleanable
        assert Path(bench.log.segments[0].file.path).read_bytes() == batch
        assert not list(Path(bench.directory).glob("*.cleaned"))

    def test_a_truncation_meanwhile_cancels_the_round(self, bench: Bench) -> None:
        for number in range(4):
            bench.append([(b"a", b"%d" % number)])
            bench.roll()

        class Meddling(InlineWorkers):
            def submit(self, work):  # type: ignore[no-untyped-def]
                future = super().submit(work)
                if isinstance(work, partial) and bench.log.end == 4:
                    bench.log.truncate_to(2, bench.now)
                return future

        bench.compactor = Compactor(bench.disk, Meddling())
        assert bench.compact() is None
        assert [offset for offset, _, _ in bench.records()] == [0, 1]
        assert not [n for n in os.listdir(bench.directory) if n.endswith((".cleaned", ".swap"))]

    def test_retention_may_take_the_segments_under_a_round(self, bench: Bench) -> None:
        for number in range(3):
            bench.append([(b"a", b"%d" % number)])
            bench.roll()
        faults: list[object] = []
        bench.log.context.on_fault = lambda log, error: faults.append(error)

        class Meddling(InlineWorkers):
            def submit(self, work):  # type: ignore[no-untyped-def]
                if isinstance(work, partial) and bench.log.start == 0:  # the map is made
                    bench.log.drop_segments(2, bench.now)
                    bench.log.context.trash.remove(bench.log.context.trash.take_due(FOREVER))
                return super().submit(work)

        bench.compactor = Compactor(bench.disk, Meddling())
        assert bench.compact() is None
        assert not faults
        assert bench.records() == [(2, b"a", b"2")]

    @pytest.mark.parametrize(
        ("code", "is_fault"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)]
    )
    def test_a_full_disk_is_waited_for_and_a_broken_one_is_reported(
        self, bench: Bench, code: int, is_fault: bool
    ) -> None:
        bench.append([(b"a", b"1"), (b"a", b"2")])
        bench.roll()
        faults: list[object] = []
        bench.log.context.on_fault = lambda log, error: faults.append(error)
        broken = OSError(code, os.strerror(code))
        with mock.patch.object(disk_module, "_pwrite", side_effect=broken):
            if is_fault:
                with pytest.raises(OSError, match=os.strerror(code)):
                    bench.compact()
            else:
                assert bench.compact() is None
        assert bool(faults) is is_fault
        assert len(bench.records()) == 2
        assert not [n for n in os.listdir(bench.directory) if n.endswith((".cleaned", ".swap"))]
        assert bench.compact() is not None

    def test_a_cancelled_round_leaves_the_log_as_it_was(self, bench: Bench) -> None:
        bench.append([(b"a", b"1"), (b"a", b"2")])
        bench.roll()

        class Stopping(InlineWorkers):
            def submit(self, work):  # type: ignore[no-untyped-def]
                bench.compactor.cancel()
                return super().submit(work)

        bench.compactor = Compactor(bench.disk, Stopping())
        assert bench.compact() is None
        assert len(bench.records()) == 2
        assert not bench.compactor.uncleanable

    def test_a_reader_goes_on_while_threads_compact(self, tmp_path: Path) -> None:
        bench = Bench(str(tmp_path))
        for start in range(20):
            bench.append([(b"k%d" % n, b"%d" % start * 50) for n in range(50)])
            bench.roll()
        workers = ThreadWorkers(2)
        compactor = Compactor(bench.disk, workers)

        async def both() -> tuple[int, object]:
            task = asyncio.create_task(compactor.run_once([bench.log], bench.now))
            reads = 0
            while not task.done():
                for offset in range(0, 1000, 50):
                    batch = bench.log.read_bytes(offset, 1 << 20)
                    assert read_head(batch).end_offset > offset
                    reads += 1
                await asyncio.sleep(0)
            return reads, task.result()

        reads, done = asyncio.run(both())
        workers.close()
        assert done is not None and reads > 0
        assert bench.values() == {b"k%d" % n: b"19" * 50 for n in range(50)}


def test_batches_larger_than_a_read_are_compacted(bench: Bench) -> None:
    bench.config = bench.config._replace(segment_bytes=1 << 30)
    bench.log.config = bench.config
    for _ in range(2):
        bench.append([(b"a", b"x" * (3 << 20)), (b"b", b"y")])
    bench.roll()
    assert bench.compact() is not None
    assert [offset for offset, _, _ in bench.records()] == [2, 3]


def test_append_time_stays(bench: Bench) -> None:
    builder = BatchBuilder(append_time=123_456, leader_epoch=0)
    builder.append(b"a", b"1", 5)
    builder.append(b"a", b"2", 6)
    bench.append_batch(builder.build())
    bench.roll()
    bench.compact()
    (head,) = bench.heads()
    assert head.is_append_time and head.max_timestamp == 123_456
