"""What becomes of state batches when new ones come."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordination.delivery.effects import State, StateBatch
from penstock.coordination.share.batches import merge, merged
from penstock.model.ids import Millis
from tests.unit.coordination.share.desk import ACKNOWLEDGED, ARCHIVED, AVAILABLE, batch

CASES = {
    "apart": ([batch(0, 4)], [batch(10, 14)], [batch(0, 4), batch(10, 14)]),
    "touching and the same": ([batch(0, 4)], [batch(5, 9)], [batch(0, 9)]),
    "touching on both sides": ([batch(0, 4), batch(6, 9)], [batch(5, 5)], [batch(0, 9)]),
    "touching and different": (
        [batch(0, 4)],
        [batch(5, 9, ACKNOWLEDGED)],
        [batch(0, 4), batch(5, 9, ACKNOWLEDGED)],
    ),
    "the same offsets, further": (
        [batch(0, 4)],
        [batch(0, 4, ACKNOWLEDGED)],
        [batch(0, 4, ACKNOWLEDGED)],
    ),
    "the same offsets, behind": (
        [batch(0, 4, ACKNOWLEDGED)],
        [batch(0, 4)],
        [batch(0, 4, ACKNOWLEDGED)],
    ),
    "more deliveries count more than the state": (
        [batch(0, 4, ARCHIVED, 1)],
        [batch(0, 4, AVAILABLE, 2)],
        [batch(0, 4, AVAILABLE, 2)],
    ),
    "in the middle": (
        [batch(0, 9)],
        [batch(3, 5, ARCHIVED)],
        [batch(0, 2), batch(3, 5, ARCHIVED), batch(6, 9)],
    ),
    "under what is there": (
        [batch(3, 5, ARCHIVED)],
        [batch(0, 9)],
        [batch(0, 2), batch(3, 5, ARCHIVED), batch(6, 9)],
    ),
    "over the end of one and the beginning of the next": (
        [batch(0, 5), batch(8, 12, ACKNOWLEDGED)],
        [batch(4, 9, AVAILABLE, 2)],
        [batch(0, 3), batch(4, 9, AVAILABLE, 2), batch(10, 12, ACKNOWLEDGED)],
    ),
    "the newer wait stands": (
        [batch(0, 4, not_before=50)],
        [batch(2, 4, not_before=20)],
        [batch(0, 1, not_before=50), batch(2, 4, not_before=20)],
    ),
    "equal but for the wait stays apart": (
        [batch(0, 4, not_before=50)],
        [batch(5, 9)],
        [batch(0, 4, not_before=50), batch(5, 9)],
    ),
    "nothing new": ([batch(0, 4)], [], [batch(0, 4)]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_new_batch_meets_those_that_are_held(case: str) -> None:
    held, new, after = CASES[case]
    row = list(held)
    merge(row, new, -1)
    assert row == after


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (-1, [batch(2, 4), batch(6, 9)]),
        (2, [batch(2, 4), batch(6, 9)]),
        (3, [batch(3, 4), batch(6, 9)]),
        (5, [batch(6, 9)]),
        (9, [batch(9, 9)]),
        (10, []),
    ],
)
def test_what_lies_below_the_start_goes(start: int, left: list[StateBatch]) -> None:
    assert merged([batch(6, 9), batch(2, 4)], start) == left


offsets = st.integers(0, 30)
batches = st.builds(
    lambda first, size, state, count, wait: StateBatch(
        first, first + size, State(state), count, Millis(wait)
    ),
    offsets,
    st.integers(0, 8),
    st.sampled_from([0, 2, 3, 4]),
    st.integers(1, 3),
    st.sampled_from([0, 0, 7, 9]),
)


def by_offset(new: list[StateBatch], start: int) -> dict[int, tuple[State, int, int]]:
    """The slow way: offset by offset, whatever is further stands."""
    found: dict[int, tuple[State, int, int]] = {}
    for it in new:
        for offset in range(it.first, it.last + 1):
            state, count, _ = found.get(offset, (State.AVAILABLE, -1, 0))
            if (it.count, it.state) >= (count, state) and offset >= start:
                found[offset] = it.state, it.count, it.not_before
    return found


@settings(max_examples=150)
@given(st.lists(batches, max_size=12), st.integers(-1, 20), st.integers(0, 12))
def test_batches_say_of_each_offset_what_is_furthest(
    new: list[StateBatch], start: int, split: int
) -> None:
    row: list[StateBatch] = []
    merge(row, new[:split], -1)
    merge(row, new[split:], start)
    assert by_offset(row, -1) == by_offset(new, start)
    for before, after in pairwise(row):
        assert before.last < after.first
        assert before.last + 1 < after.first or before[2:] != after[2:], "could be one"


@settings(max_examples=100)
@given(st.lists(batches, max_size=8))
def test_to_say_it_again_changes_nothing(new: list[StateBatch]) -> None:
    once = merged(new, -1)
    twice = list(once)
    merge(twice, once, -1)
    assert twice == once


def test_many_wide_batches_cost_no_more_than_one() -> None:
    count = 2_000
    held = [batch(4 * at, 4 * at, ACKNOWLEDGED) for at in range(count)]
    wide = [batch(at, 4 * count, count=0) for at in range(count)]
    began = time.process_time()
    merge(held, wide, -1)
    assert len(held) == 2 * count
    assert time.process_time() - began < 2, "a row of overlaps holds the node up"
