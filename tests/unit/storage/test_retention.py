"""Old segments go, by time, by size, and below the log's start."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.retention import retain
from tests.unit.storage.logs import NOW, batch, contents, fill, open_log, put

HOUR = 3_600_000


def hourly(directory: Path, config: LogConfig, segments: int = 5) -> Log:
    """A log with one segment an hour, of ten records each; the last one is active."""
    log = open_log(directory, config)
    for hour in range(segments):
        if hour:
            log.roll(NOW)
        fill(log, 10, timestamp=NOW + hour * HOUR)
    log.high_watermark = log.end
    return log


def test_segments_go_when_their_youngest_record_is_too_old(tmp_path: Path) -> None:
    log = hourly(tmp_path, LogConfig(retention_ms=2 * HOUR))
    assert retain(log, NOW + 2 * HOUR + 9) == 0
    assert retain(log, NOW + 2 * HOUR + 10) == 1
    assert (log.start, log.segments[0].base) == (10, 10)
    assert retain(log, NOW + 4 * HOUR + 10) == 2
    assert log.epochs.entries == [(0, 30)]


def test_the_last_segment_goes_too_and_the_log_goes_on_at_its_end(tmp_path: Path) -> None:
    log = hourly(tmp_path, LogConfig(retention_ms=HOUR))
    assert retain(log, NOW + 100 * HOUR) == 5
    assert (log.start, log.end, log.size) == (50, 50, 0)
    assert retain(log, NOW + 200 * HOUR) == 0
    assert put(log, batch()) == 50


def test_nothing_above_the_high_watermark_goes(tmp_path: Path) -> None:
    log = hourly(tmp_path, LogConfig(retention_ms=HOUR, retention_bytes=0))
    log.high_watermark = 25
    assert retain(log, NOW + 100 * HOUR) == 2
    assert log.start == 20


def test_segments_go_while_the_log_stays_at_least_as_large_as_asked(tmp_path: Path) -> None:
    log = hourly(tmp_path, LogConfig(retention_ms=-1))
    segment = log.segments[0].size
    for keep, expected in ((5 * segment, 0), (4 * segment + 1, 0), (4 * segment, 1), (segment, 3)):
        log.config = LogConfig(retention_ms=-1, retention_bytes=keep)
        assert retain(log, NOW) == expected
    assert log.start == 40


def test_segments_below_the_log_start_go_under_any_policy(tmp_path: Path) -> None:
    config = LogConfig(cleanup_delete=False, cleanup_compact=True, retention_ms=0)
    log = hourly(tmp_path, config)
    log.advance_start(29)
    assert retain(log, NOW + 100 * HOUR) == 2
    assert (log.start, log.segments[0].base) == (29, 20)
    assert len(contents(log)) == 21


def test_records_without_timestamps_are_as_old_as_their_file(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(retention_ms=HOUR))
    put(log, batch(timestamp=-1))
    log.roll(NOW)
    log.high_watermark = 1
    path = tmp_path / "00000000000000000000.log"
    os.utime(path, (NOW / 1000, NOW / 1000))
    assert retain(log, NOW + HOUR) == 0
    assert retain(log, NOW + HOUR + 1000) == 1


def test_the_age_of_sealed_segments_is_known_after_a_restart(tmp_path: Path) -> None:
    hourly(tmp_path, LogConfig()).close()
    log = open_log(tmp_path, LogConfig(retention_ms=2 * HOUR))
    log.high_watermark = log.end
    assert retain(log, NOW + 2 * HOUR + 10) == 1
    assert not any(segment.index_loaded for segment in log.segments[:-1]), "memory is bounded"


def test_deleted_files_stay_readable_until_the_delay_is_over(tmp_path: Path) -> None:
    log = hourly(tmp_path, LogConfig(retention_ms=HOUR, file_delete_delay_ms=60_000))
    slice_before = log.read(0, 100, log.end)
    expected = contents(log)[0]
    assert slice_before is not None
    now = NOW + 3 * HOUR
    assert retain(log, now) == 2
    log.context.disk.open_files_max = 0
    assert slice_before.read()[: len(expected)] == expected
    assert len(list(tmp_path.glob("*.deleted"))) >= 4
    assert log.context.trash.take_due(now + 59_999) == []
    log.context.trash.remove(log.context.trash.take_due(now + 60_000))
    assert not list(tmp_path.glob("*.deleted"))
    assert len(contents(log)) == 30
