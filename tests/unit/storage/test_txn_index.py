from __future__ import annotations

import pytest

from penstock.storage.txn_index import (
    ENTRY_SIZE,
    AbortedTxn,
    CorruptTxnIndex,
    aborted_between,
    check_index,
    decode_entries,
    encode_entries,
    encode_entry,
    size_below,
)

TXNS = [
    AbortedTxn(1, first_offset=0, last_offset=10, last_stable_offset=11),
    AbortedTxn(2, first_offset=5, last_offset=20, last_stable_offset=12),
    AbortedTxn(1, first_offset=12, last_offset=30, last_stable_offset=31),
]
INDEX = encode_entries(TXNS)


def test_an_entry_has_kafkas_34_bytes() -> None:
    assert encode_entry(AbortedTxn(1, 2, 3, 4)).hex() == (
        "00000000000000000001000000000000000200000000000000030000000000000004"
    )
    assert ENTRY_SIZE == 34


def test_entries_come_back() -> None:
    assert list(decode_entries(INDEX)) == TXNS


def test_a_torn_entry_at_the_end_is_left_out() -> None:
    assert list(decode_entries(INDEX[:-1])) == TXNS[:2]


@pytest.mark.parametrize(
    ("start", "end", "found", "complete"),
    [
        (0, 5, TXNS[:1], True),
        (0, 12, TXNS[:2], True),
        (11, 12, TXNS[1:2], True),
        (11, 13, TXNS[1:], True),
        (21, 25, TXNS[2:], True),
        (31, 40, [], False),  # one with its marker in the next segment may begin here
        (0, 40, TXNS, False),
    ],
)
def test_aborted_transactions_of_a_range(
    start: int, end: int, found: list[AbortedTxn], complete: bool
) -> None:
    assert aborted_between(INDEX, start, end) == (found, complete)


def test_a_reader_near_the_end_is_not_held_up_by_what_was_aborted_before() -> None:
    many = [AbortedTxn(7, at, at + 1, at + 2) for at in range(0, 200_000, 2)]
    index = encode_entries(many)
    looked_at = sum(1 for _ in decode_entries(index, 99_998))
    assert looked_at == 2
    assert aborted_between(index, 199_997, 200_000) == (many[-2:], True)


@pytest.mark.parametrize(("offset", "count"), [(0, 0), (10, 0), (11, 1), (30, 2), (31, 3)])
def test_cutting_the_log_drops_entries_with_later_markers(offset: int, count: int) -> None:
    assert size_below(INDEX, offset) == count * ENTRY_SIZE


def test_a_good_index_passes() -> None:
    check_index(INDEX, 0)
    check_index(b"", 99)


@pytest.mark.parametrize(
    ("data", "base"),
    [
        (INDEX[:-1], 0),
        (INDEX, 11),  # of another segment
        (encode_entries(TXNS[::-1]), 0),
        (b"\x00\x01" + INDEX[2:], 0),
    ],
)
def test_a_bad_index_is_noticed(data: bytes, base: int) -> None:
    with pytest.raises(CorruptTxnIndex):
        check_index(data, base)
