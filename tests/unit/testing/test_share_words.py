"""What a share member says and hears: ranges of offsets, and records in the batches of a log."""

from __future__ import annotations

from penstock.protocol.generated.share_fetch import AcquiredRecords, PartitionData
from penstock.records.builder import BatchBuilder, end_txn_batch
from penstock.testing.share_words import Spot, Word, acknowledged, acquired, runs


def batch(base: int, *offsets: int) -> bytes:
    made = BatchBuilder(base_offset=base)
    for offset in offsets:
        made.append(b"k", b"v%d" % offset, 1000 + offset, [("h", None)], offset)
    return made.build()


def part(data: bytes, *ranges: tuple[int, int, int]) -> PartitionData:
    return PartitionData(
        partition_index=3,
        records=memoryview(data),
        acquired_records=[
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in ranges
        ],
    )


def test_offsets_that_follow_each_other_are_one_range() -> None:
    said = runs([7, 5, 6, 9], Word.RELEASE)
    assert [(one.first_offset, one.last_offset, one.acknowledge_types) for one in said] == [
        (5, 7, [2]), (9, 9, [2]),
    ]  # fmt: skip
    assert runs([], Word.ACCEPT) == []


def test_words_are_grouped_by_topic_and_partition() -> None:
    spots = {Spot(b"b" * 16, 0): [1], Spot(b"a" * 16, 1): [4, 5], Spot(b"a" * 16, 0): [2]}
    said = acknowledged(spots, Word.ACCEPT)
    places = [(one.topic_id[:1], [each.partition_index for each in one.partitions]) for one in said]
    assert places == [(b"a", [0, 1]), (b"b", [0])]


def test_only_what_was_acquired_is_ours_with_its_count() -> None:
    data = batch(0, 0, 1, 2) + batch(3, 3, 4)
    got, gaps = acquired("t", part(data, (1, 1, 4), (2, 3, 1)))
    assert [(one.offset, one.deliveries, one.value) for one in got] == [
        (1, 4, b"v1"), (2, 1, b"v2"), (3, 1, b"v3"),
    ]  # fmt: skip
    assert (got[0].topic, got[0].partition, got[0].timestamp) == ("t", 3, 1001)
    assert (got[0].key, got[0].headers, gaps) == (b"k", [("h", None)], [])


def test_offsets_without_a_record_are_gaps() -> None:
    marker = end_txn_batch(
        is_commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0,
        base_offset=3,
    )  # fmt: skip
    data = batch(0, 0, 2) + marker
    got, gaps = acquired("t", part(data, (0, 3, 1)))
    assert [one.offset for one in got] == [0, 2]
    assert gaps == [1, 3]


def test_a_batch_that_is_cut_off_is_left_for_another_time() -> None:
    data = batch(0, 0) + batch(1, 1)[:-1]
    got, gaps = acquired("t", part(data, (0, 1, 1)))
    assert [one.offset for one in got] == [0]
    assert gaps == []  # who calls it one would have it passed over for ever
