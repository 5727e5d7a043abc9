"""The sparse indexes of a segment, in memory and as Kafka's files."""

from __future__ import annotations

import pytest

from penstock.storage.index import CorruptIndex, SegmentIndex


def filled() -> SegmentIndex:
    index = SegmentIndex()
    for number in range(1, 6):
        index.add(number * 10, number * 1000)
        index.add_time(50_000 + number, number * 10)
    return index


def files(index: SegmentIndex) -> tuple[bytes, bytes]:
    return (
        index.offset_bytes(0, len(index.offsets)),
        index.time_bytes(0, len(index.times)),
    )


def test_entries_are_big_endian_pairs() -> None:
    index = SegmentIndex()
    index.add(258, 4097)
    index.add_time(1 << 40, 258)
    assert files(index) == (
        bytes([0, 0, 1, 2, 0, 0, 16, 1]),
        bytes([0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2]),
    )


def test_files_are_read_back_as_they_were_written() -> None:
    index = filled()
    again = SegmentIndex.parse(*files(index), log_size=6000)
    assert (again.offsets, again.positions) == (index.offsets, index.positions)
    assert (again.times, again.time_offsets) == (index.times, index.time_offsets)
    assert (again.offsets_written, again.times_written) == (5, 5)


@pytest.mark.parametrize(
    ("offset", "position"), [(0, 0), (9, 0), (10, 1000), (19, 1000), (20, 2000), (99, 5000)]
)
def test_the_search_starts_at_the_entry_before(offset: int, position: int) -> None:
    assert filled().position_before(offset) == position


def test_a_time_search_starts_where_everything_before_is_older() -> None:
    index = filled()
    assert index.offset_before_time(50_001) == 0
    assert index.offset_before_time(50_003) == 20
    assert index.offset_before_time(99_999) == 50


def test_time_entries_are_made_only_when_time_moves_on() -> None:
    index = SegmentIndex()
    for timestamp, offset in ((5, 1), (5, 2), (4, 3), (6, 4)):
        index.add_time(timestamp, offset)
    assert (list(index.times), list(index.time_offsets)) == ([5, 6], [1, 4])


def test_truncation_forgets_the_offset_and_what_is_behind_it() -> None:
    index = SegmentIndex.parse(*files(filled()), log_size=6000)
    index.truncate(30)
    assert list(index.offsets) == [10, 20]
    assert list(index.time_offsets) == [10, 20]
    assert (index.offsets_written, index.times_written) == (2, 2)


def test_an_index_is_full_as_kafka_counts() -> None:
    index = filled()
    assert index.is_full(40)  # 5 entries of 8 bytes
    assert index.is_full(72)  # 5 entries of 12, and one is kept free for sealing
    assert not index.is_full(84)


def _damaged(offsets: bytes, times: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (offsets[:-3], times),
        (offsets, times[:-1]),
        (offsets + bytes(8), times),  # what a crashed Kafka leaves of its preallocated file
        (offsets, times + bytes(12)),
        (offsets[8:16] + offsets[:8] + offsets[16:], times),
        (offsets + b"\x7f\xff\xff\xff\x7f\xff\xff\xff", times),
        (b"\xff" + offsets[1:], times),
        (offsets, b"\x80" + times[1:]),
    ]


@pytest.mark.parametrize("damaged", _damaged(*files(filled())))
def test_a_file_that_contradicts_itself_is_refused(damaged: tuple[bytes, bytes]) -> None:
    with pytest.raises(CorruptIndex):
        SegmentIndex.parse(*damaged, log_size=6000)
