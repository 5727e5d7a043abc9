"""A log appends, reads, rolls and truncates."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.platform.disk import AHEAD_FROM, Disk
from penstock.records.batch import read_head
from penstock.records.builder import end_txn_batch
from penstock.storage.log import CorruptBatch, Log, OffsetOutOfRange
from penstock.storage.log_config import LogConfig
from penstock.storage.segment import Segment
from tests.unit.storage.logs import NOW, batch, contents, fill, open_log, put

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def bases(log: Log) -> list[int]:
    return [segment.base for segment in log.segments]


def offsets_in(data: bytes) -> list[int]:
    """Base offsets of the whole batches in a slice."""
    found, at = [], 0
    while at + 61 <= len(data):
        head = read_head(data, at)
        at += head.size
        if at <= len(data):
            found.append(head.base_offset)
    return found


# ── appending and reading ───────────────────────────────────────────────────────────────────────


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    data = batch(3)
    assert put(log, data) == 0
    assert (log.start, log.end) == (0, 3)
    assert log.read_bytes(0, 10_000) == bytes(data)


def test_a_read_begins_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 50, records=3)
    for offset in range(log.end):
        found = log.read(offset, 10_000, log.end)
        assert found is not None
        assert read_head(found.read()).base_offset == offset - offset % 3


def test_a_reader_that_goes_on_where_it_stopped_sees_everything_once(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 100, records=2)
    offset, seen = 0, []
    while offset < log.end:
        found = offsets_in(log.read_bytes(offset, 350))
        seen += found
        offset = found[-1] + 2
    assert seen == list(range(0, 200, 2))


def test_nothing_at_or_above_the_ceiling_is_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 30)
    for ceiling in range(1, 31):
        for offset in range(ceiling):
            found = offsets_in(log.read_bytes(offset, 100_000, ceiling))
            assert found[0] == offset and found[-1] < ceiling
        assert log.read(ceiling, 1000, ceiling) is None


def test_the_first_batch_comes_whole_even_if_it_is_too_large(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    large = batch(value=bytes(500))
    put(log, large)
    put(log, batch())
    assert log.read_bytes(0, 100) == bytes(large)
    assert log.read(0, 100, log.end, whole_first=False) is None


def test_a_slice_may_be_cut_behind_its_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    size = len(batch())
    fill(log, 3)
    found = log.read(0, size + 10, log.end)
    assert found is not None and found.size == size + 10


@pytest.mark.parametrize("segment_bytes", [1000, 1 << 20])
def test_a_cut_falls_between_batches_where_the_index_knows_one_to_end(
    tmp_path: Path, segment_bytes: int
) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=segment_bytes, index_interval_bytes=1))
    fill(log, 100, records=2)
    size = len(batch(2))
    for offset in range(0, log.end, 2):
        found = log.read(offset, 3 * size + size // 2, log.end)
        assert found is not None
        assert found.size % size == 0 and 0 < found.size <= 3 * size
        assert read_head(found.read()).base_offset == offset


@pytest.mark.parametrize("size_max", [-1, 0, 1, 2, 50])
def test_the_first_batch_comes_whole_or_not_at_all_wherever_the_index_knows_one(
    tmp_path: Path, size_max: int
) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1))
    fill(log, 10)
    for offset in range(9):
        assert len(log.read_bytes(offset, size_max)) == len(batch())
        assert log.read(offset, size_max, log.end, whole_first=False) is None


def test_a_cut_far_from_all_that_the_index_knows_falls_where_the_limit_is(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1 << 20))
    fill(log, 100)
    assert len(log.read_bytes(0, 1000)) == 1000


@pytest.mark.parametrize("segment_bytes", [2000, 1 << 20])
def test_where_a_reader_goes_on_is_not_looked_for(
    tmp_path: Path, segment_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=segment_bytes, index_interval_bytes=1))
    fill(log, 100)
    limit = 4 * len(batch()) + 10
    log.read(0, limit, log.end)
    looked: list[int] = []
    monkeypatch.setattr(Segment, "position_of", lambda _, offset: looked.append(offset))
    for offset in (4, 8):
        found = log.read(offset, limit, log.end)
        assert found is not None and read_head(found.read()).base_offset == offset
    assert looked == []


def test_a_cut_does_not_believe_an_index_that_lies(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1))
    fill(log, 20)
    positions = log.active.index.positions
    for entry in range(len(positions)):
        positions[entry] += 5
    assert len(log.read_bytes(0, 500)) == 500
    assert offsets_in(log.read_bytes(0, 500)) == list(range(500 // len(batch())))


def test_what_is_remembered_of_places_ends_with_them(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1))
    fill(log, 40)
    limit = 4 * len(batch()) + 10
    assert len(offsets_in(log.read_bytes(0, limit))) == 4
    log.truncate_to(2)
    fill(log, 30, records=3)
    assert offsets_in(log.read_bytes(4, limit))[0] == 2  # the batch of offsets 2 to 4


def test_reading_at_the_end_finds_nothing_and_beyond_it_is_out_of_range(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2)
    assert log.read(2, 100, 2) is None
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, 2)


def test_a_gap_left_by_compaction_is_stepped_over(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    put(log, batch())
    put(log, batch(), at=10)
    log.roll(NOW)
    put(log, batch(), at=20)
    assert offsets_in(log.read_bytes(5, 1000)) == [10]
    assert offsets_in(log.read_bytes(11, 1000)) == [20]


def test_reads_keep_working_with_very_few_descriptors(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL, disk=Disk(open_files_max=2))
    fill(log, 200)
    assert len(log.segments) > 10
    assert [offsets_in(log.read_bytes(offset, 80))[0] for offset in range(200)] == list(range(200))


def test_indexes_of_sealed_segments_are_dropped_and_read_again(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    log.context.indexes._bytes_max = 100
    fill(log, 300)
    assert sum(segment.index_loaded for segment in log.segments) < 5
    assert offsets_in(log.read_bytes(7, 80)) == [7]


def test_a_failed_append_changes_nothing_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    faults = []
    log.context.on_fault = lambda failed, error: faults.append((failed, error.errno))
    fill(log, 2)
    before = contents(log)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("penstock.platform.disk._pwrite", full)
        with pytest.raises(OSError, match="no space"):
            put(log, batch())
    assert (log.end, contents(log)) == (2, before)
    assert faults == [(log, errno.ENOSPC)]
    assert put(log, batch()) == 2


# ── followers ───────────────────────────────────────────────────────────────────────────────────


def test_a_follower_appends_what_the_leader_sent_and_leaves_out_a_cut_batch(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "leader")
    for epoch in (3, 3, 5):
        put(leader, batch(2), epoch=epoch)
    follower = open_log(tmp_path / "follower")
    data = leader.read_bytes(0, 10_000)
    assert follower.append_batches(data[:-5], NOW) == 4
    assert follower.append_batches(leader.read_bytes(4, 10_000), NOW) == 6
    assert contents(follower) == contents(leader)
    assert follower.epochs.entries == [(3, 0), (5, 4)]


def test_a_follower_refuses_batches_that_are_rotten_or_go_back(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "leader")
    fill(leader, 3)
    data = bytearray(leader.read_bytes(0, 10_000))
    follower = open_log(tmp_path / "follower")
    follower.append_batches(data, NOW)
    with pytest.raises(CorruptBatch, match="where 3 is next"):
        follower.append_batches(data, NOW)
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        open_log(tmp_path / "other").append_batches(data, NOW)
    with pytest.raises(CorruptBatch, match="no batch"):
        follower.append_batches(bytes(100), NOW)


# ── rolling ─────────────────────────────────────────────────────────────────────────────────────


def test_a_segment_rolls_before_it_grows_too_large(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 100)
    assert len(log.segments) > 5
    assert all(segment.size <= 1000 for segment in log.segments)
    assert all(segment.size > 900 for segment in log.segments[:-1])
    assert contents(log) == [bytes(data) for _, data in log.batches(0)] and log.end == 100


@pytest.mark.parametrize("end", ["roll", "close"])
def test_a_segment_that_takes_no_more_gives_its_spare_blocks_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("penstock.platform.blocks._is_ext4", lambda *_: True)
    monkeypatch.setattr("penstock.platform.blocks._FREE_MIN", 0)
    log = open_log(tmp_path, LogConfig(message_max_bytes=AHEAD_FROM * 2))
    put(log, batch(AHEAD_FROM // 1000 + 1, value=bytes(1000)))
    segment = log.active
    assert segment.size > AHEAD_FROM
    about = os.stat(segment.path(".log"))
    assert about.st_blocks * 512 >= segment.size + AHEAD_FROM // 4
    assert about.st_size == segment.size
    if end == "roll":
        log.roll(NOW)
    else:
        log.close()
    Disk().sync_path(segment.path(".log"))
    about = os.stat(segment.path(".log"))
    assert about.st_size == segment.size and about.st_blocks * 512 < segment.size + 64 * 1024


def test_a_segment_rolls_by_the_time_between_its_first_batch_and_the_next(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=100))
    for timestamp in (0, 60, 100, 101, 150, 202):
        put(log, batch(timestamp=NOW + timestamp), now=0)
    assert bases(log) == [0, 3, 5]


def test_jitter_makes_a_segment_roll_earlier(tmp_path: Path) -> None:
    class Late:
        def between(self, low: int, high: int) -> int:
            return high

    log = open_log(tmp_path, LogConfig(segment_ms=100, segment_jitter_ms=30))
    log.context.chance = Late()  # type: ignore[assignment]
    for timestamp in (0, 70, 71):
        put(log, batch(timestamp=NOW + timestamp))
    assert bases(log) == [0, 2]


def test_without_timestamps_a_segment_rolls_by_its_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=100), now=1000)
    for now in (1000, 1100, 1101):
        put(log, batch(timestamp=-1), now=now)
    assert bases(log) == [0, 2]


def test_the_time_of_the_first_batch_is_remembered_over_a_restart(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=100)
    log = open_log(tmp_path, config)
    put(log, batch(timestamp=NOW))
    log.close()
    log = open_log(tmp_path, config)
    put(log, batch(timestamp=NOW + 101))
    assert bases(log) == [0, 1]


def test_a_segment_rolls_when_its_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=80))
    fill(log, 40)
    assert len(log.segments) > 3
    assert all(len(segment.index.offsets) <= 10 for segment in log.segments)
    assert all(len(segment.index.times) * 12 <= 80 for segment in log.segments)


def test_a_segment_rolls_before_an_offset_is_too_far_from_its_base(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    put(log, batch())
    put(log, batch(), at=2**31 - 1)
    put(log, batch(), at=2**31)
    assert bases(log) == [0, 2**31]


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for size in (10, 2000, 10):
        put(log, batch(value=bytes(size)))
    assert bases(log) == [0, 1, 2]


def test_a_roll_that_fails_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 12)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "open", full)
        with pytest.raises(OSError, match="no space"):
            fill(log, 5)
    end = log.end
    fill(log, 20)
    assert log.end == end + 20
    assert len(contents(log)) == end + 20


def test_a_roll_writes_the_producers_and_asks_for_a_sync(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    asked = []
    log.context.on_roll = asked.append
    put(log, batch(2, producer_id=4, producer_epoch=0, sequence=0))
    log.roll(NOW)
    assert asked == [log]
    assert (tmp_path / "00000000000000000002.snapshot").stat().st_size > 10


# ── truncating ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 11, 12, 13, 39])
def test_truncation_cuts_batches_segments_epochs_and_producers(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(40):
        put(
            log,
            batch(producer_id=1, producer_epoch=0, sequence=number),
            epoch=number // 10,
        )
    before = contents(log)
    log.sync()
    log.truncate_to(offset, NOW)
    assert (log.end, contents(log)) == (offset, before[:offset])
    assert log.recovery_point == offset
    assert all(start < offset for _, start in log.epochs.entries)
    producer = log.producers.by_id.get(1)
    assert (producer.next_sequence if producer else 0) == offset
    put(log, batch(2, producer_id=1, producer_epoch=0, sequence=offset))
    assert log.end == offset + 2
    assert len(contents(log)) == offset + 1


def test_a_truncated_log_is_the_same_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 40)
    log.truncate_to(17, NOW)
    fill(log, 3, records=2)
    expected = contents(log)
    log.close()
    assert contents(open_log(tmp_path, SMALL)) == expected


def test_truncating_at_or_above_the_end_does_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.truncate_to(3, NOW)
    log.truncate_to(9, NOW)
    assert log.end == 3


def test_a_log_can_begin_anew_at_another_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 40)
    log.truncate_all(1000, NOW)
    assert (log.start, log.end, log.size) == (1000, 1000, 0)
    assert put(log, batch()) == 1000
    expected = contents(log)
    log.close()
    again = open_log(tmp_path, SMALL)
    assert (again.start, again.end, contents(again)) == (1000, 1001, expected)


def test_an_aborted_transaction_is_indexed_with_its_segment_and_truncated_with_it(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    put(log, batch(2, producer_id=5, producer_epoch=0, sequence=0, transactional=True))
    marker = bytearray(
        end_txn_batch(
            producer_id=5, producer_epoch=0, is_commit=False, coordinator_epoch=1, timestamp=NOW
        )
    )
    put(log, marker)
    index = tmp_path / "00000000000000000000.txnindex"
    assert index.stat().st_size == 34
    assert not log.producers.ongoing
    log.truncate_to(2, NOW)
    assert index.stat().st_size == 0
    assert list(log.producers.ongoing) == [0]
