"""How far behind a group is, out of offsets and batches."""

from __future__ import annotations

import pytest

from penstock.cli.group_lag import document, first_time, lag_of, seconds_of, tables, totals
from penstock.records.batch import HEAD_SIZE
from penstock.records.builder import BatchBuilder, end_txn_batch

GZIP = 1


def batch(base: int, *times: int, **options: int) -> bytes:
    builder = BatchBuilder(base_offset=base, **options)  # type: ignore[arg-type]
    for time in times:
        builder.append(None, b"value" * 20, time)
    return builder.build()


def time_at(data: bytes, offset: int) -> int | None:
    return first_time(memoryview(data), offset)


@pytest.mark.parametrize("compression", [0, GZIP])
def test_the_time_is_that_of_the_very_record(compression: int) -> None:
    data = batch(10, 1000, 3000, 2000, compression=compression)
    assert [time_at(data, offset) for offset in (9, 10, 11, 12)] == [1000, 1000, 3000, 2000]


def test_a_batch_that_was_read_already_is_passed_over() -> None:
    assert time_at(batch(0, 1000, 2000) + batch(2, 3000), 2) == 3000


def test_a_batch_that_is_cut_short_tells_the_time_of_its_first_record() -> None:
    data = batch(10, 1000, 2000, 3000)
    assert time_at(data[: HEAD_SIZE + 5], 12) == 1000
    assert time_at(data[: HEAD_SIZE - 1], 10) is None


def test_markers_are_no_records() -> None:
    marker = end_txn_batch(
        is_commit=True,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=500,
        base_offset=4,
    )
    assert time_at(marker, 4) is None
    assert time_at(marker + batch(5, 900), 4) == 900


def test_the_brokers_time_counts_where_the_topic_says_so() -> None:
    assert time_at(batch(0, 1, 2, append_time=7000), 1) == 7000


def test_the_horizon_of_a_compacted_batch_is_not_taken_for_a_time() -> None:
    data = batch(0, 1000, 2000, delete_horizon=99_000)
    assert time_at(data, 0) == 1000
    assert time_at(data[: HEAD_SIZE + 5], 0) is None


def test_damage_is_survived() -> None:
    data = bytearray(batch(10, 1000, 2000, 3000))
    data[HEAD_SIZE] = 0xFF
    assert time_at(bytes(data), 12) == 1000
    assert time_at(b"\xff" * 200, 0) is None


def test_nobody_is_ahead_of_the_end_and_nothing_is_guessed() -> None:
    assert lag_of(3, 10) == 7
    assert lag_of(12, 10) == 0
    assert lag_of(None, 10) is None
    assert lag_of(3, None) is None


def test_the_age_is_nothing_where_all_is_read_and_unknown_where_it_cannot_be_told() -> None:
    assert seconds_of(0, None, 10_000) == 0.0
    assert seconds_of(5, 4_000, 10_000) == 6.0
    assert seconds_of(5, 12_000, 10_000) == 0.0, "a clock that is ahead"
    assert seconds_of(5, None, 10_000) is None
    assert seconds_of(None, None, 10_000) is None


def row(partition: int, lag: int | None, seconds: float | None) -> dict[str, object]:
    return {
        "topic": "t", "partition": partition, "committed": 1, "end": 2,
        "lag": lag, "seconds": seconds, "member": None,
    }  # fmt: skip


def test_lags_add_up_and_the_oldest_record_is_the_groups_age() -> None:
    assert totals([row(0, 3, 1.5), row(1, None, None), row(2, 4, 90.0)]) == {
        "partitions": 3,
        "lag": 7,
        "seconds": 90.0,
    }
    assert totals([]) == {"partitions": 0, "lag": 0, "seconds": None}


def test_people_read_ages_and_programs_read_seconds() -> None:
    lagging = document({"group": "g", "state": "stable"}, [row(0, 3, 90.0)])
    assert lagging["total"]["seconds"] == 90.0
    summary, partitions = tables(lagging)
    assert summary.rows == [["g", "stable", 1, 3, "1m30s"]]
    assert partitions.headings[5] == "behind"
    assert partitions.rows[0][5] == "1m30s"
