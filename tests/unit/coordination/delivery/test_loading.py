"""What a new leader makes of what the share coordinator holds."""

from __future__ import annotations

import pytest

from penstock.coordination.delivery.effects import Acquired, StateBatch
from penstock.coordination.delivery.states import State

from .desk import Desk

AVAILABLE, ACQUIRED = State.AVAILABLE, State.ACQUIRED
ACKNOWLEDGED, ARCHIVED = State.ACKNOWLEDGED, State.ARCHIVED


@pytest.mark.parametrize(
    ("batches", "start", "reads"),
    [
        pytest.param([], 10, 10, id="nothing was ever said"),
        pytest.param([StateBatch(10, 14, ACKNOWLEDGED, 1)], 15, 15, id="all is done with"),
        pytest.param([StateBatch(15, 19, ACKNOWLEDGED, 1)], 10, 10, id="the first left no trace"),
        pytest.param([StateBatch(10, 14, AVAILABLE, 2)], 10, 10, id="some came back"),
        pytest.param(
            [StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(15, 19, ARCHIVED, 5)],
            20,
            20,
            id="accepted and given up",
        ),
        pytest.param(
            [StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(20, 24, ACKNOWLEDGED, 1)],
            15,
            15,
            id="a hole between",
        ),
        pytest.param([StateBatch(5, 14, ACKNOWLEDGED, 1)], 15, 15, id="reaching below the start"),
        pytest.param([StateBatch(3, 4, AVAILABLE, 1)], 10, 10, id="all below the start"),
        pytest.param([StateBatch(10, 14, ACQUIRED, 1)], 10, 10, id="of a reader that is gone"),
        pytest.param(
            [StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(12, 16, AVAILABLE, 1)],
            15,
            15,
            id="one over another",
        ),
    ],
)
def test_reading_goes_on_where_it_has_to(batches: list[StateBatch], start: int, reads: int) -> None:
    desk = Desk(None, 10, batches)
    assert (desk.delivery.start, desk.next) == (start, reads)


def test_holes_are_read_again_and_what_is_known_is_not() -> None:
    held = [StateBatch(3, 5, ACKNOWLEDGED, 1), StateBatch(8, 9, AVAILABLE, 3)]
    desk = Desk(None, 0, held)
    assert desk.fetch("ann", (0, 9), (10, 12)) == [Acquired(0, 2, 1), Acquired(6, 7, 1)]
    # The other two were delivered three times: they are suspects, and go alone.
    assert desk.fetch("ann", (0, 9), (10, 12)) == [Acquired(8, 8, 4)]
    assert desk.next == 9


def test_holes_that_are_gaps_of_the_log_are_done_with() -> None:
    desk = Desk(None, 0, [StateBatch(5, 9, ACKNOWLEDGED, 1)])
    assert desk.next == 0
    assert desk.fetch("ann", (5, 9), (10, 10)) == [Acquired(10, 10, 1)]
    assert desk.delivery.start == 10
