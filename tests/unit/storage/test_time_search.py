"""Records are found by time, for ListOffsets."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.records.builder import BatchBuilder
from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.time_search import FoundOffset
from tests.unit.storage.logs import open_log, put

SMALL = LogConfig(segment_bytes=1500, index_interval_bytes=300)


def build(directory: Path, compression: int) -> tuple[Log, list[int]]:
    """A log whose timestamps wander, and the timestamp of each offset."""
    chance = random.Random(compression)
    log = open_log(directory, SMALL)
    timestamps: list[int] = []
    for number in range(60):
        builder = BatchBuilder(compression=compression)
        for _ in range(chance.randint(1, 4)):
            timestamps.append(number * 10 + chance.randint(0, 35))
            builder.append(None, b"value" * 5, timestamps[-1])
        put(log, bytearray(builder.build()), epoch=number // 20)
    assert len(log.segments) > 3
    return log, timestamps


@pytest.mark.parametrize("compression", range(5))
@pytest.mark.parametrize("reopen", [None, True, False])
def test_the_first_record_at_or_after_a_time_is_found(
    tmp_path: Path, compression: int, reopen: bool | None
) -> None:
    log, timestamps = build(tmp_path, compression)
    if reopen is not None:
        log.close()
        log = open_log(tmp_path, SMALL, clean=reopen)
    for wanted in range(max(timestamps) + 1):
        offset = next(o for o, timestamp in enumerate(timestamps) if timestamp >= wanted)
        found = log.find_timestamp(wanted)
        assert found == FoundOffset(timestamps[offset], offset, log.epochs.epoch_for(offset))
    assert log.find_timestamp(max(timestamps) + 1) is None
    highest = timestamps.index(max(timestamps))
    youngest = log.find_max_timestamp()
    assert youngest is not None
    assert (youngest.timestamp, youngest.offset) == (max(timestamps), highest)


def test_records_below_the_log_start_are_not_found(tmp_path: Path) -> None:
    log, _ = build(tmp_path, 0)
    log.advance_start(50)
    found = log.find_timestamp(0)
    assert found is not None and found.offset == 50


def test_an_empty_log_has_no_youngest_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.find_max_timestamp() is None
    assert log.find_timestamp(0) is None


def test_the_time_of_append_is_the_time_of_every_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    builder = BatchBuilder(append_time=500)
    for timestamp in (1, 2, 3):
        builder.append(None, b"value", timestamp)
    put(log, bytearray(builder.build()))
    assert log.find_timestamp(400) == FoundOffset(500, 0, 0)
    assert log.find_max_timestamp() == FoundOffset(500, 0, 0)
