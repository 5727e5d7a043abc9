"""Transactions on one partition: who may begin, what readers see, and what a marker ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import NodeId
from penstock.replica.partition import BYTES_UNCOUNTED, Appended, Partition, Readable, Refused
from penstock.replica.transactions import GUARDS_MAX, NOT_TRANSACTIONAL, Guard, Unverified
from penstock.storage.store import LogStore
from tests.unit.replica.test_partition import Syncs, Waiter, leading
from tests.unit.server.asking import NOON, batch

PRODUCER = 9


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    store = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    store.open()
    yield leading(store, Syncs())
    store.close()


def append(
    partition: Partition,
    sequence: int = 0,
    epoch: int = 0,
    guard: Guard | None = None,
    producer_id: int = PRODUCER,
    **options: Any,
) -> Appended | Refused | Unverified:
    data = batch(
        1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        **({"transactional": True} | options),
    )
    return partition.append(memoryview(bytearray(data)), NOON, guard)


def begin(partition: Partition, sequence: int = 0, epoch: int = 0) -> Appended:
    asked = append(partition, sequence, epoch)
    assert isinstance(asked, Unverified)
    begun = append(partition, sequence, epoch, asked.guard)
    assert isinstance(begun, Appended)
    return begun


def end(
    partition: Partition, epoch: int = 0, commit: bool = True, rising: bool = False
) -> Appended | Refused:
    return partition.append_marker(PRODUCER, epoch, 0, commit, NOON, rising)


def refusal(result: Any) -> ErrorCode:
    assert isinstance(result, Refused), result
    return result.error


def test_the_first_batch_of_a_transaction_has_to_be_verified(partition: Partition) -> None:
    asked = append(partition)
    assert isinstance(asked, Unverified) and asked[:2] == (PRODUCER, 0)
    assert partition.log.end == 0
    assert append(partition, guard=asked.guard) == Appended(0, 1, -1, 0)


def test_later_batches_of_an_open_transaction_are_not_asked_about(partition: Partition) -> None:
    begin(partition)
    assert append(partition, 1) == Appended(1, 2, -1, 0)


def test_each_transaction_is_verified_anew(partition: Partition) -> None:
    begin(partition)
    end(partition)
    assert isinstance(append(partition, 1), Unverified)


def test_a_marker_voids_what_the_coordinator_said_before_it(partition: Partition) -> None:
    asked = append(partition)
    assert isinstance(asked, Unverified)
    end(partition)
    again = append(partition, guard=asked.guard)
    assert isinstance(again, Unverified) and again.guard is not asked.guard


def test_a_guard_is_good_for_its_own_producer_only(partition: Partition) -> None:
    asked = append(partition)
    assert isinstance(asked, Unverified)
    assert isinstance(append(partition, producer_id=10, guard=asked.guard), Unverified)


def test_a_batch_does_not_overtake_an_earlier_one_that_asked(partition: Partition) -> None:
    first, second = append(partition, 0), append(partition, 1)
    assert isinstance(first, Unverified) and isinstance(second, Unverified)
    out_of_order = append(partition, 1, guard=second.guard)
    assert refusal(out_of_order) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(partition, 0, guard=first.guard) == Appended(0, 1, -1, 0)
    assert append(partition, 1) == Appended(1, 2, -1, 0)


def test_from_version_2_on_an_unknown_producer_begins_at_zero(partition: Partition) -> None:
    asked = append(partition, 5)
    assert isinstance(asked, Unverified)
    asked.guard.from_zero = True
    refused = append(partition, 5, guard=asked.guard)
    assert refusal(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_forgets_what_the_old_one_asked(partition: Partition) -> None:
    append(partition, 0, epoch=0)
    asked = append(partition, 3, epoch=1)
    assert isinstance(asked, Unverified) and asked.guard.lowest_sequence == 3


def test_producers_that_never_come_back_take_bounded_memory(partition: Partition) -> None:
    asked = append(partition, producer_id=1)
    assert isinstance(asked, Unverified)
    for producer_id in range(2, GUARDS_MAX + 2):
        append(partition, producer_id=producer_id)
    assert isinstance(append(partition, producer_id=1, guard=asked.guard), Unverified)


def test_a_request_without_a_transactional_id_takes_no_part(partition: Partition) -> None:
    refused = append(partition, guard=NOT_TRANSACTIONAL)
    assert refusal(refused) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    begin(partition)
    refused = append(partition, 1, guard=NOT_TRANSACTIONAL)
    assert refusal(refused) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_within_a_transaction_other_batches_of_the_producer_are_refused(
    partition: Partition,
) -> None:
    begin(partition)
    plain = append(partition, 1, guard=NOT_TRANSACTIONAL, transactional=False)
    assert refusal(plain) is ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_holds_the_last_stable_offset(partition: Partition) -> None:
    append(partition, producer_id=1, transactional=False)
    begin(partition)
    append(partition, 1, producer_id=1, transactional=False)
    assert (partition.high_watermark, partition.last_stable) == (3, 1)
    end(partition)
    assert (partition.high_watermark, partition.last_stable) == (4, 4)


def test_aborted_records_are_told_to_readers(partition: Partition) -> None:
    begin(partition)
    end(partition, commit=False)
    begin(partition, 1)
    end(partition)
    assert aborted_from(partition, 0) == [(PRODUCER, 0)]
    assert aborted_from(partition, 2) == []


def test_a_reader_is_not_told_of_what_was_aborted_far_behind_what_it_gets(tmp_path: Path) -> None:
    store = LogStore([str(tmp_path)], node_id=1, cluster_id="cluster")
    store.open()
    partition = leading(store, Syncs(), index_interval_bytes=1, segment_bytes=5000)
    for number in range(100):
        begin(partition, number)
        end(partition, commit=False)
    everything = aborted_from(partition, 0)
    few = aborted_from(partition, 0, 400)
    assert 2 <= len(few) <= 5 and everything[: len(few)] == few
    assert len(everything) < 100  # the other segments come with other fetches
    in_the_middle = aborted_from(partition, 100, 400)
    assert in_the_middle[0] == (PRODUCER, 100) and len(in_the_middle) <= 5
    store.close()


def aborted_from(
    partition: Partition, offset: int, size_max: int = 1_000_000
) -> list[tuple[int, int]]:
    read = partition.read(offset, size_max, True, True)
    assert isinstance(read, Readable)
    return partition.aborted(offset, read)


def test_a_marker_of_an_older_epoch_is_refused(partition: Partition) -> None:
    begin(partition, epoch=3)
    assert refusal(end(partition, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.last_stable == 0


def test_from_version_2_on_a_delayed_marker_cannot_end_the_next_transaction(
    partition: Partition,
) -> None:
    begin(partition, epoch=0)
    end(partition, epoch=1, rising=True)
    assert isinstance(end(partition, epoch=1, rising=True), Appended)  # the same one, again
    begin(partition, epoch=1)
    assert refusal(end(partition, epoch=1, rising=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(end(partition, epoch=2, rising=True), Appended)


def test_a_coordinator_that_was_replaced_ends_nothing(partition: Partition) -> None:
    begin(partition)
    partition.append_marker(PRODUCER, 0, 5, True, NOON)
    begin(partition, 1)
    fenced = partition.append_marker(PRODUCER, 0, 4, True, NOON)
    assert refusal(fenced) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_fenced_producer_writes_nothing_more(partition: Partition) -> None:
    begin(partition)
    end(partition, epoch=1, commit=False)
    assert refusal(append(partition, 1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_who_does_not_lead_takes_no_marker(partition: Partition) -> None:
    partition.step_down(7, 2)
    assert refusal(end(partition)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_who_led_in_between_may_have_ended_what_the_coordinator_spoke_of(
    partition: Partition,
) -> None:
    asked = append(partition)
    assert isinstance(asked, Unverified)
    partition.step_down(1, 2)
    partition.lead(2, (1,), (1,))
    assert isinstance(append(partition, guard=asked.guard), Unverified)


def test_a_marker_is_what_keeps_this_nodes_own_records_out(partition: Partition) -> None:
    guard = partition.guards.of(PRODUCER, 0)
    assert partition.guards.of(PRODUCER, 0) is guard
    assert partition.guards.is_good(PRODUCER, guard)
    end(partition)
    assert not partition.guards.is_good(PRODUCER, guard)


@pytest.mark.parametrize("watermark", [0, 1, 2, 3])
def test_what_ended_before_a_crash_is_readable_after_it(tmp_path: Path, watermark: int) -> None:
    """However far the checkpoint of the high watermark was: nothing may have to be appended."""
    store = LogStore([str(tmp_path / "before")], node_id=1, cluster_id="cluster")
    store.open()
    before = leading(store, Syncs())
    begin(before)
    append(before, 1)
    end(before)
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    store.close()
    again = LogStore([str(tmp_path / "after")], node_id=1, cluster_id="cluster")
    again.open()
    log = again.logs[before.log.topic_partition]
    after = Partition(NodeId(1), log, watermark, Syncs())
    after.lead(1, (1,), (1,))
    assert (after.last_stable, after.high_watermark) == (3, 3)
    again.close()


def test_what_ended_is_readable_after_the_log_has_moved(tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    store = LogStore([str(place) for place in places], node_id=1, cluster_id="cluster")
    store.open()
    partition = leading(store, Syncs())
    begin(partition)
    end(partition)
    here = store.directory_of(partition.log)
    there = next(each for each in store.directories if each is not here)
    move = store.begin_move(partition.log.topic_partition, there)
    partition.use_log(move.finish(NOON))
    assert (partition.last_stable, partition.high_watermark) == (2, 2)
    store.close()


def test_the_last_stable_offset_is_never_below_the_start(partition: Partition) -> None:
    begin(partition)
    append(partition, 1)
    partition.log.advance_start(1)
    assert partition.last_stable == 1
    append(partition, 2)
    partition.log.advance_start(3)
    assert partition.last_stable == partition.high_watermark == 3


def test_a_marker_releases_readers_who_wait_for_more_bytes_than_it_has(
    partition: Partition,
) -> None:
    waiter = Waiter()
    begin(partition)
    partition.audience.park(waiter)
    append(partition, 1)
    assert waiter.told == [len(batch(1))]
    end(partition)
    assert waiter.told[1:] == [BYTES_UNCOUNTED]
