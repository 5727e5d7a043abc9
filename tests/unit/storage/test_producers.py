from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import ErrorCode
from penstock.records.batch import BatchHead, read_head
from penstock.records.builder import BatchBuilder, end_txn_batch
from penstock.storage.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
)
from penstock.storage.producers import Duplicate, Producers

APACHES = bytes.fromhex(
    (Path(__file__).parents[2] / "data" / "records" / "producers.snapshot.hex").read_text()
)
NOW = 1_700_000_000_000
DAY = 86_400_000
SEQUENCE_LAST = 2**31 - 1


def batch_at(
    offset: int,
    sequence: int,
    count: int = 1,
    *,
    producer_id: int = 1,
    epoch: int = 0,
    transactional: bool = False,
) -> bytes:
    builder = BatchBuilder(
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    for _ in range(count):
        builder.append(b"k", b"v", NOW + offset)
    return builder.build()


def head_at(offset: int, sequence: int, count: int = 1, **settings: int) -> BatchHead:
    return read_head(batch_at(offset, sequence, count, **settings))  # type: ignore[arg-type]


def note(producers: Producers, head: BatchHead) -> None:
    producers.update(head, head.base_offset, head.max_timestamp)


def marker_at(offset: int, *, commit: bool, producer_id: int = 1, epoch: int = 0) -> bytes:
    return end_txn_batch(
        is_commit=commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=4,
        timestamp=NOW + offset,
        base_offset=offset,
    )


@pytest.fixture
def producers() -> Producers:
    return Producers()


class TestSequences:
    def test_a_new_producer_may_begin_anywhere(self, producers: Producers) -> None:
        assert producers.check(1, 0, 0, 4) is None
        assert producers.check(1, 7, 99, 99) is None

    def test_the_next_sequence_is_fresh(self, producers: Producers) -> None:
        note(producers, head_at(0, 0, 5))
        assert producers.check(1, 0, 5, 5) is None

    def test_a_gap_is_out_of_order(self, producers: Producers) -> None:
        note(producers, head_at(0, 0, 5))
        assert producers.check(1, 0, 6, 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_each_of_the_last_five_batches_is_known_again(self, producers: Producers) -> None:
        for number in range(6):
            note(producers, head_at(100 + 3 * number, 3 * number, 3))
        for number in range(1, 6):
            verdict = producers.check(1, 0, 3 * number, 3 * number + 2)
            base = 100 + 3 * number
            assert verdict == Duplicate(base, base + 2, NOW + base)
        assert producers.check(1, 0, 0, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_a_retry_must_have_the_same_range(self, producers: Producers) -> None:
        note(producers, head_at(0, 0, 3))
        assert producers.check(1, 0, 0, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producers.check(1, 0, 1, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_sequences_wrap_to_zero(self, producers: Producers) -> None:
        note(producers, head_at(0, SEQUENCE_LAST))
        assert producers.check(1, 0, 0, 0) is None

    def test_a_batch_may_wrap_in_its_middle(self, producers: Producers) -> None:
        note(producers, head_at(0, SEQUENCE_LAST - 1, 4))
        assert producers.check(1, 0, 2, 2) is None
        assert producers.check(1, 0, SEQUENCE_LAST - 1, 1) == Duplicate(0, 3, NOW)

    def test_other_producers_do_not_matter(self, producers: Producers) -> None:
        note(producers, head_at(0, 0, 5))
        assert producers.check(2, 0, 0, 0) is None


class TestEpochs:
    def test_an_older_epoch_is_fenced(self, producers: Producers) -> None:
        note(producers, head_at(0, 0, epoch=3))
        assert producers.check(1, 2, 1, 1) is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_a_newer_epoch_begins_at_zero(self, producers: Producers) -> None:
        note(producers, head_at(0, 0, 5))
        assert producers.check(1, 1, 5, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producers.check(1, 1, 0, 0) is None

    def test_a_newer_epoch_forgets_the_batches_of_the_older(self, producers: Producers) -> None:
        note(producers, head_at(0, 0))
        note(producers, head_at(1, 0, epoch=1))
        assert producers.check(1, 1, 0, 0) == Duplicate(1, 1, NOW + 1)
        assert producers.check(1, 1, 1, 1) is None

    def test_a_negative_epoch_is_fenced(self, producers: Producers) -> None:
        assert producers.check(1, -1, 0, 0) is ErrorCode.INVALID_PRODUCER_EPOCH


class TestTransactions:
    def test_the_oldest_open_one_bounds_the_readers(self, producers: Producers) -> None:
        assert producers.first_unstable_offset is None
        note(producers, head_at(10, 0, producer_id=1, transactional=True))
        note(producers, head_at(11, 0, producer_id=2, transactional=True))
        note(producers, head_at(12, 1, producer_id=1, transactional=True))
        assert producers.first_unstable_offset == producers.first_undecided_offset == 10

        marker = marker_at(13, commit=True)
        done = producers.replay(marker, 0, read_head(marker))
        assert done is not None
        assert (done.first_offset, done.last_offset, done.is_aborted) == (10, 13, False)
        assert done.last_stable_offset == 11
        # Decided, but until the marker is replicated its end might be undone.
        assert producers.first_undecided_offset == 11
        assert producers.first_unstable_offset == 10
        producers.advance_high_watermark(13)
        assert producers.first_unstable_offset == 10
        producers.advance_high_watermark(14)
        assert producers.first_unstable_offset == 11

    def test_an_abort_of_the_last_one_frees_the_whole_log(self, producers: Producers) -> None:
        note(producers, head_at(10, 0, transactional=True))
        marker = marker_at(11, commit=False)
        done = producers.replay(marker, 0, read_head(marker))
        assert done is not None and done.is_aborted and done.last_stable_offset == 12

    def test_a_marker_without_data_ends_nothing(self, producers: Producers) -> None:
        marker = marker_at(5, commit=True, epoch=3)
        assert producers.replay(marker, 0, read_head(marker)) is None
        assert producers.by_id[1].epoch == 3
        assert producers.by_id[1].coordinator_epoch == 4

    def test_records_outside_an_open_transaction_are_refused(self, producers: Producers) -> None:
        note(producers, head_at(10, 0, transactional=True))
        assert producers.check(1, 0, 1, 1) is ErrorCode.INVALID_TXN_STATE
        assert producers.check(1, 0, 1, 1, transactional=True) is None

    def test_a_zombie_coordinator_is_fenced(self, producers: Producers) -> None:
        marker = marker_at(5, commit=True, epoch=3)
        producers.replay(marker, 0, read_head(marker))
        assert producers.check_marker(1, 3, 4) is None
        assert producers.check_marker(1, 3, 3) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert producers.check_marker(1, 2, 4) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert producers.check_marker(9, 0, 0) is None

    def test_a_delayed_marker_cannot_end_the_next_transaction(self, producers: Producers) -> None:
        note(producers, head_at(10, 0, transactional=True, epoch=5))
        assert producers.check_marker(1, 5, 0) is None
        refused = producers.check_marker(1, 5, 0, epoch_must_rise=True)
        assert refused is ErrorCode.INVALID_PRODUCER_EPOCH
        assert producers.check_marker(1, 6, 0, epoch_must_rise=True) is None

    def test_the_same_marker_may_come_again(self, producers: Producers) -> None:
        marker = marker_at(5, commit=True, epoch=6)
        producers.replay(marker, 0, read_head(marker))
        assert producers.check_marker(1, 6, 4, epoch_must_rise=True) is None

    def test_a_batch_without_a_producer_changes_nothing(self, producers: Producers) -> None:
        builder = BatchBuilder()
        builder.append(b"k", b"v", NOW)
        batch = builder.build()
        assert producers.replay(batch, 0, read_head(batch)) is None
        assert len(producers) == 0

    def test_offsets_committed_in_a_transaction_have_no_sequence(
        self, producers: Producers
    ) -> None:
        note(producers, head_at(3, -1, 2, transactional=True))
        assert producers.by_id[1].last_sequence == -1
        assert producers.first_unstable_offset == 3


class TestExpiry:
    def test_quiet_producers_are_forgotten(self, producers: Producers) -> None:
        note(producers, head_at(0, 0))
        assert producers.expire(NOW + DAY - 1, DAY) == 0
        assert producers.expire(NOW + DAY, DAY) == 1
        assert producers.check(1, 0, 77, 77) is None

    def test_an_open_transaction_keeps_its_producer(self, producers: Producers) -> None:
        note(producers, head_at(0, 0, transactional=True))
        assert producers.expire(NOW + 10 * DAY, DAY) == 0


class TestSnapshots:
    def filled(self) -> Producers:
        """The state of which Apache Kafka wrote its snapshot."""
        producers = Producers()
        head = head_at(40, 12, 6, producer_id=1, epoch=3, transactional=True)
        producers.update(head, 40, 1_700_000_000_123)
        producers.update(head_at(46, 0, producer_id=2), 46, 1_700_000_000_456)
        producers.complete(3, 32767, 9, 47, 1_700_000_000_789, True)
        return producers

    def test_they_have_apaches_bytes(self) -> None:
        assert self.filled().snapshot() == APACHES
        assert snapshot_name(48) == "00000000000000000048.snapshot"

    def test_they_bring_the_state_back(self) -> None:
        producers = Producers()
        producers.load(APACHES, NOW, DAY)
        assert producers.snapshot() == APACHES
        assert producers.check(1, 3, 18, 18, transactional=True) is None
        assert producers.check(1, 3, 12, 17) == Duplicate(40, 45, 1_700_000_000_123)
        assert producers.first_unstable_offset == 40
        assert producers.by_id[3].epoch == 32767

    def test_expired_producers_are_not_brought_back(self) -> None:
        producers = Producers()
        producers.load(APACHES, NOW + 2 * DAY, DAY)
        assert set(producers.by_id) == {1}  # its transaction is open

    def test_open_transactions_come_back_in_the_order_of_their_offsets(self) -> None:
        producers = Producers()
        note(producers, head_at(5, 0, producer_id=2, transactional=True))
        note(producers, head_at(6, 0, producer_id=1, transactional=True))
        rows = decode_snapshot(producers.snapshot())
        loaded = Producers()
        loaded.load(encode_snapshot(reversed(rows)), NOW, DAY)
        assert list(loaded.ongoing) == [5, 6]

    def test_no_flipped_bit_goes_unnoticed(self) -> None:
        for at in range(len(APACHES)):
            broken = bytearray(APACHES)
            broken[at] ^= 0x04
            with pytest.raises(CorruptSnapshot):
                decode_snapshot(bytes(broken))

    @pytest.mark.parametrize("size", [0, 5, 9, 10, 60, len(APACHES) - 1])
    def test_a_torn_one_is_refused_and_changes_nothing(self, size: int) -> None:
        producers = self.filled()
        with pytest.raises(CorruptSnapshot):
            producers.load(APACHES[:size], NOW, DAY)
        assert producers.snapshot() == APACHES

    def test_an_empty_one_is_fine(self) -> None:
        producers = Producers()
        producers.load(Producers().snapshot(), NOW, DAY)
        assert len(producers) == 0


def test_replaying_a_log_gives_the_state_that_appending_gave(producers: Producers) -> None:
    again = Producers()
    batches = [
        batch_at(0, 0, 3),
        batch_at(3, 0, 2, producer_id=2, transactional=True),
        batch_at(5, 3, 1),
        marker_at(6, commit=False, producer_id=2),
    ]
    for batch in batches:
        head = read_head(batch)
        if head.is_control:
            producers.complete(2, 0, 4, 6, NOW + 6, False)
        else:
            note(producers, head)
        again.replay(batch, 0, head)
    assert again.snapshot() == producers.snapshot()
    assert again.first_unstable_offset == producers.first_unstable_offset == 3
