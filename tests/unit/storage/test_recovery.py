"""Opening logs that were stopped, killed, torn, or left to rot."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from penstock.platform.disk import AHEAD_FROM, Disk
from penstock.records.batch import read_head
from penstock.storage import scan
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.scan import LegacyMessages
from penstock.storage.segment import CorruptSegment
from tests.unit.storage.logs import NOW, batch, contents, fill, open_log, put

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)
FIRST = "00000000000000000000"


def written(directory: Path, count: int = 40) -> list[bytes]:
    """A closed log of several segments; answers its batches."""
    log = open_log(directory, SMALL)
    fill(log, count)
    batches = contents(log)
    log.close()
    return batches


def last_segment(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def check_whole(log: Log, batches: list[bytes]) -> None:
    assert contents(log) == batches
    assert log.end == len(batches)
    for offset in range(log.end):
        assert log.read_bytes(offset, 10) == batches[offset]


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_is_the_same_after_a_restart(tmp_path: Path, clean: bool) -> None:
    batches = written(tmp_path)
    log = open_log(tmp_path, SMALL, clean=clean)
    check_whole(log, batches)
    assert log.epochs.entries == [(0, 0)]
    assert log.recovery_point == (40 if clean else 0)


def test_a_short_life_between_two_clean_stops_is_in_the_time_index(tmp_path: Path) -> None:
    written(tmp_path, 3)
    log = open_log(tmp_path, SMALL)
    put(log, batch(timestamp=NOW + 500))
    log.close()
    assert (tmp_path / f"{FIRST}.timeindex").read_bytes()[-12:-4] == (NOW + 500).to_bytes(8, "big")


def test_a_log_holds_no_descriptor_after_loading(tmp_path: Path) -> None:
    written(tmp_path)
    for clean in (True, False):
        assert open_log(tmp_path, SMALL, clean=clean).context.disk.open_files == 0


@pytest.mark.parametrize("keep", [1, 30, 60, 61, 62, 80])
def test_a_torn_tail_is_cut_to_the_last_whole_batch(tmp_path: Path, keep: int) -> None:
    batches = written(tmp_path)
    path = last_segment(tmp_path)
    sound = path.stat().st_size
    with open(path, "ab") as file:
        file.write(batches[-1][:keep])
    log = open_log(tmp_path, SMALL, clean=False)
    check_whole(log, batches)
    assert path.stat().st_size == sound
    fill(log, 3)
    assert log.end == 43


@pytest.mark.parametrize("garbage", [bytes(500), b"\xff" * 500, os.urandom(500)])
def test_garbage_behind_the_last_batch_is_cut(tmp_path: Path, garbage: bytes) -> None:
    batches = written(tmp_path)
    with open(last_segment(tmp_path), "ab") as file:
        file.write(garbage)
    check_whole(open_log(tmp_path, SMALL, clean=False), batches)


def test_a_log_that_was_killed_while_it_grew_goes_on_where_its_batches_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.platform.blocks._is_ext4", lambda *_: True)
    monkeypatch.setattr("penstock.platform.blocks._FREE_MIN", 0)
    log = open_log(tmp_path)
    fill(log, 1 + AHEAD_FROM // 10_000, records=700)
    batches = contents(log)
    path = last_segment(tmp_path)
    Disk().sync_path(str(path))
    assert path.stat().st_blocks * 512 >= log.size + 128 * 1024
    again = open_log(tmp_path, clean=False)  # the first one was not closed
    assert contents(again) == batches
    assert path.stat().st_size == again.size == log.size
    fill(again, 3)
    assert contents(again)[: len(batches)] == batches
    again.close()
    Disk().sync_path(str(path))
    assert path.stat().st_size == again.size
    assert path.stat().st_blocks * 512 < again.size + 64 * 1024


def test_a_flipped_bit_cuts_the_log_there_and_drops_later_segments(tmp_path: Path) -> None:
    batches = written(tmp_path)
    second = sorted(tmp_path.glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    first_size = read_head(data).size
    data[first_size + 70] ^= 1
    second.write_bytes(data)
    keep = int(second.stem) + 1
    check_whole(open_log(tmp_path, SMALL, clean=False), batches[:keep])
    assert len(list(tmp_path.glob("*.log"))) == 2


def test_segments_below_the_recovery_point_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = written(tmp_path)
    read = []
    original = scan.scan_segment
    monkeypatch.setattr(
        "penstock.storage.recovery.scan_segment",
        lambda file, base, interval: read.append(base) or original(file, base, interval),
    )
    bases = sorted(int(path.stem) for path in tmp_path.glob("*.log"))
    log = open_log(tmp_path, SMALL, clean=False, recovery_point=bases[-2] + 1)
    assert read == bases[-2:]
    assert log.recovery_point == bases[-2] + 1
    check_whole(log, batches)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: None,
        lambda data: b"",
        lambda data: data[:-3],
        lambda data: bytes(len(data)),
        lambda data: data + bytes(8 * 3),
        lambda data: b"\xff" * len(data),
        lambda data: os.urandom(len(data)),
    ],
    ids=["missing", "empty", "cut", "zeros", "longer", "ones", "random"],
)
def test_rotten_indexes_cost_a_rebuild_and_never_a_wrong_answer(
    tmp_path: Path, clean: bool, suffix: str, damage: object
) -> None:
    batches = written(tmp_path)
    for path in tmp_path.glob(f"*{suffix}"):
        data = damage(path.read_bytes())  # type: ignore[operator]
        path.unlink() if data is None else path.write_bytes(data)
    log = open_log(tmp_path, SMALL, clean=clean, recovery_point=30)
    check_whole(log, batches)
    if suffix == ".timeindex" or not clean:
        return
    for offset in range(0, 40, 7):
        found = log.find_timestamp(NOW + offset)
        assert found is not None and found.offset == offset


def test_an_index_that_points_at_other_batches_is_rebuilt(tmp_path: Path) -> None:
    batches = written(tmp_path)
    path = tmp_path / f"{FIRST}.index"
    data = bytearray(path.read_bytes())
    data[7] += 1  # plausible, but no batch begins there
    path.write_bytes(data)
    sound = bytes(path.read_bytes())
    check_whole(open_log(tmp_path, SMALL), batches)
    assert path.read_bytes() != sound


def test_a_rotten_batch_in_a_trusted_segment_fails_its_readers_alone(tmp_path: Path) -> None:
    batches = written(tmp_path)
    path = tmp_path / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    at = len(batches[0]) + len(batches[1])
    data[at + 8 : at + 12] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    log = open_log(tmp_path, SMALL)
    assert log.read_bytes(0, 10) == batches[0]
    with pytest.raises(CorruptSegment):
        log.read(2, 10, log.end)
    assert log.read_bytes(39, 10) == batches[39]


def test_rot_at_the_end_is_found_even_after_a_clean_stop(tmp_path: Path) -> None:
    batches = written(tmp_path)
    path = last_segment(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    check_whole(open_log(tmp_path, SMALL), batches[:-1])


def test_messages_of_old_formats_are_refused_and_left_alone(tmp_path: Path) -> None:
    # Offset 0, size 18, crc, magic 0, attributes 0, key -1, value "four".
    message = bytes.fromhex("0000000000000000 00000012 00000000 00 00 ffffffff 00000004")
    message += b"four"
    body = bytearray(message)
    body[12:16] = zlib.crc32(body[16:]).to_bytes(4, "big")
    padded = bytes(body) * 4  # several, so that a whole modern head would fit
    (tmp_path / f"{FIRST}.log").write_bytes(padded)
    with pytest.raises(LegacyMessages, match="format 0"):
        open_log(tmp_path, SMALL, clean=False)
    assert (tmp_path / f"{FIRST}.log").read_bytes() == padded


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"0\n5\n0 0\n", b"nonsense"])
def test_corrupt_epochs_are_read_from_the_batches(tmp_path: Path, content: bytes) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(30):
        put(log, batch(), epoch=number // 10)
    log.close()
    (tmp_path / "leader-epoch-checkpoint").write_bytes(content)
    assert open_log(tmp_path, SMALL).epochs.entries == [(0, 0), (1, 10), (2, 20)]


def test_an_empty_checkpoint_of_epochs_is_no_news(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache Kafka makes the file with the log, and writes into it when an epoch begins."""
    open_log(tmp_path, SMALL).close()
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"")
    assert open_log(tmp_path, SMALL).epochs.entries == []
    assert caplog.records == []


def test_epochs_that_were_never_written_are_read_from_the_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(30):
        put(log, batch(), epoch=number // 10)
    assert not (tmp_path / "leader-epoch-checkpoint").exists()
    assert open_log(tmp_path, SMALL, clean=False).epochs.entries == [(0, 0), (1, 10), (2, 20)]


@pytest.mark.parametrize("clean", [True, False])
def test_producers_are_rebuilt_from_the_newest_snapshot_and_the_batches(
    tmp_path: Path, clean: bool
) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(30):
        put(log, batch(producer_id=7, producer_epoch=2, sequence=number))
    if clean:
        log.close()
    again = open_log(tmp_path, SMALL, clean=clean)
    assert again.producers.by_id[7].next_sequence == 30
    assert again.producers.by_id[7].epoch == 2


def test_a_torn_producer_snapshot_is_dropped_for_an_older_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(30):
        put(log, batch(producer_id=7, producer_epoch=2, sequence=number))
    log.close()
    for path in sorted(tmp_path.glob("*.snapshot"))[-2:]:
        path.write_bytes(path.read_bytes()[:-1])
    assert open_log(tmp_path, SMALL).producers.by_id[7].next_sequence == 30


def test_snapshots_that_nobody_needs_are_removed(tmp_path: Path) -> None:
    for _ in range(3):
        log = open_log(tmp_path, SMALL)
        put(log, batch(producer_id=7, producer_epoch=0, sequence=log.end))
        log.close()
    open_log(tmp_path, SMALL)
    assert [path.stem for path in tmp_path.glob("*.snapshot")] == ["00000000000000000003"]


def test_a_log_start_beyond_what_survived_begins_an_empty_log_there(tmp_path: Path) -> None:
    written(tmp_path)
    log = open_log(tmp_path, SMALL, clean=False, start=100)
    assert (log.start, log.end) == (100, 100)
    assert put(log, batch()) == 100


def test_the_log_start_of_the_checkpoint_holds(tmp_path: Path) -> None:
    written(tmp_path)
    log = open_log(tmp_path, SMALL, start=15)
    assert (log.start, log.end) == (15, 40)
    assert log.epochs.entries == [(0, 15)]


def test_files_on_their_way_out_are_removed(tmp_path: Path) -> None:
    batches = written(tmp_path)
    for name in (f"{FIRST}.log.deleted", f"{FIRST}.index.deleted", f"{FIRST}.log.cleaned"):
        (tmp_path / name).write_bytes(b"old")
    (tmp_path / "00000000000000000777.index").write_bytes(b"its log is gone")
    check_whole(open_log(tmp_path, SMALL), batches)
    assert not [each for each in tmp_path.iterdir() if each.suffix in (".deleted", ".cleaned")]
    assert not (tmp_path / "00000000000000000777.index").exists()


def test_a_swap_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    batches = written(tmp_path)
    old = sorted(tmp_path.glob("*.log"))[:2]
    end = int(sorted(tmp_path.glob("*.log"))[2].stem)
    merged = b"".join(path.read_bytes() for path in old)
    (tmp_path / f"{FIRST}.log.swap").write_bytes(merged)
    log = open_log(tmp_path, SMALL, clean=False)
    assert [segment.base for segment in log.segments][:2] == [0, end]
    check_whole(log, batches)


def test_a_swap_beside_a_cleaned_file_is_undone(tmp_path: Path) -> None:
    batches = written(tmp_path)
    (tmp_path / f"{FIRST}.log.cleaned").write_bytes(b"half")
    (tmp_path / f"{FIRST}.log.swap").write_bytes(batches[0])
    check_whole(open_log(tmp_path, SMALL, clean=False), batches)
    assert not list(tmp_path.glob("*.swap"))


def test_a_batch_larger_than_a_piece_of_the_scan_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "CHUNK", 100)
    log = open_log(tmp_path)
    for size in (10, 500, 10, 2000):
        put(log, batch(value=bytes(size)))
    expected = contents(log)
    assert contents(open_log(tmp_path, clean=False)) == expected
    with open(tmp_path / f"{FIRST}.log", "ab") as file:
        file.write(expected[1][:-7])
    assert contents(open_log(tmp_path, clean=False)) == expected
