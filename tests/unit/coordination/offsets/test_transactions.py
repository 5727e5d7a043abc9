"""Offsets that wait for the end of a transaction: the later record wins, not the later marker."""

from __future__ import annotations

from penstock.coordination.group.offsets.fetching import fetch_offsets
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.unit.coordination.offsets.desk import Desk


def fetched(desk: Desk, require_stable: bool = True) -> tuple[int, ErrorCode]:
    asked = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    response = desk.step(
        lambda shard, at, out, ticket: fetch_offsets(shard, at, out, ticket, asked, require_stable)
    )
    found = response.topics[0].partitions[0]
    return found.committed_offset, ErrorCode(found.error_code)


def test_an_offset_counts_when_its_transaction_commits() -> None:
    desk = Desk()
    desk.commit("g", 5, producer=1)
    assert desk.offset("g") is None
    desk.end_txn(1, is_commit=True)
    assert desk.offset("g") == 5
    assert not desk.shard.offsets.any_open


def test_an_offset_of_an_aborted_transaction_never_counts() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.commit("g", 5, producer=1)
    desk.end_txn(1, is_commit=False)
    assert desk.offset("g") == 1
    assert not desk.shard.offsets.any_open


def test_a_marker_of_a_producer_that_committed_nothing_here_changes_nothing() -> None:
    desk = Desk()
    desk.commit("g", 5, producer=1)
    desk.end_txn(2, is_commit=True)
    assert desk.offset("g") is None
    assert desk.shard.offsets.has_open_transactions("g")


def test_readers_of_committed_work_wait_for_an_open_transaction() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.commit("g", 5, producer=1)
    assert fetched(desk) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetched(desk, require_stable=False) == (1, ErrorCode.NONE)
    desk.end_txn(1, is_commit=True)
    assert fetched(desk) == (5, ErrorCode.NONE)


def test_a_plain_commit_after_one_in_a_transaction_is_not_overruled_by_the_marker() -> None:
    desk = Desk()
    desk.commit("g", 5, producer=1)
    desk.commit("g", 9)
    assert fetched(desk) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    desk.end_txn(1, is_commit=True)
    assert desk.offset("g") == 9


def test_of_two_transactions_the_later_commit_wins_whichever_ends_first() -> None:
    for first, second in ((1, 2), (2, 1)):
        desk = Desk()
        desk.commit("g", 5, producer=1)
        desk.commit("g", 6, producer=2)
        desk.end_txn(first, is_commit=True)
        desk.end_txn(second, is_commit=True)
        assert desk.offset("g") == 6


def test_an_earlier_commit_counts_if_the_later_transaction_aborts() -> None:
    desk = Desk()
    desk.commit("g", 5, producer=1)
    desk.commit("g", 6, producer=2)
    desk.end_txn(2, is_commit=False)
    desk.end_txn(1, is_commit=True)
    assert desk.offset("g") == 5


def test_within_a_transaction_the_last_commit_of_a_partition_counts() -> None:
    desk = Desk()
    desk.commit("g", 5, producer=1)
    desk.commit("g", 6, producer=1)
    desk.commit("g", 7, producer=1, partition=1)
    desk.end_txn(1, is_commit=True)
    assert (desk.offset("g"), desk.offset("g", partition=1)) == (6, 7)


def test_a_forgotten_offset_is_not_brought_back_by_a_marker() -> None:
    desk = Desk()
    desk.commit("g", 1)
    desk.commit("g", 5, producer=1)
    desk.commit("g", 5, producer=2)
    desk.shard.offsets.remove("g", "t", 0)
    assert not desk.shard.offsets.any_open
    desk.end_txn(1, is_commit=True)
    desk.end_txn(2, is_commit=True)
    assert desk.offset("g") is None
