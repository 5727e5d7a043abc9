"""Rows in the order in which they are due, against a list that is sorted each time."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from penstock.storage import delay_rows
from penstock.storage.delay_batches import Row
from penstock.storage.delay_rows import NEVER, WaitingRows


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_rows, "BLOCK_MAX", 8)


def listed(rows: WaitingRows) -> list[tuple[int, int, int]]:
    return [(row.due, row.id, row.place) for row in rows.rows_from(-1)]


def test_nothing_is_due_where_nothing_waits() -> None:
    rows = WaitingRows()
    assert rows.earliest == rows.lowest_place == NEVER
    assert not rows.remove(1, 1)
    assert list(rows.rows_from(0)) == [] == rows.below(NEVER - 1, 5)
    assert (1, 1) not in rows


def test_equal_times_keep_the_order_of_arrival() -> None:
    rows = WaitingRows()
    for id_ in (5, 1, 9, 3):
        rows.put(100, id_, id_)
    assert [row.id for row in rows.rows_from(-1)] == [1, 3, 5, 9]


def test_a_row_that_is_put_again_only_changes_its_place() -> None:
    rows = WaitingRows()
    rows.put(10, 1, 0)
    rows.put(10, 1, 77)
    assert listed(rows) == [(10, 1, 77)]
    assert len(rows) == 1


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_what_a_sorted_list_would_be(seed: int) -> None:
    chance = random.Random(seed)
    rows, model = WaitingRows(), dict[tuple[int, int], int]()
    for id_ in range(400):
        step = chance.random()
        if step < 0.6 or not model:
            due, place = chance.randrange(40), chance.randrange(1000)
            rows.put(due, id_, place)
            model[due, id_] = place
        elif step < 0.9:
            key = chance.choice([min(model), *model])
            assert rows.remove(*key)
            assert not rows.remove(*key)
            del model[key]
        elif step < 0.92:
            start = chance.randrange(500)
            gone = [key for key, place in model.items() if place < start]
            assert rows.drop_below(start) == len(gone)
            for key in gone:
                del model[key]
        else:
            again = WaitingRows()
            again.load(*rows.columns())
            rows = again
        expected = sorted((due, id_, place) for (due, id_), place in model.items())
        assert listed(rows) == expected
        assert len(rows) == len(expected)
        assert rows.earliest == (expected[0][0] if expected else NEVER)
        assert rows.lowest_place == min(model.values(), default=NEVER)
        due, since = chance.randrange(40), chance.randrange(400)
        later = [Row(*row) for row in expected if row[:2] >= (due, since)]
        assert list(rows.rows_from(due, since)) == later
        assert ((due, since) in rows) == ((due, since) in model)
        below = [Row(*row) for row in expected if row[2] < since]
        assert rows.below(since, 7) == below[:7]


def test_rows_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    chance = random.Random(1)
    tracemalloc.start()
    rows = WaitingRows()
    for id_ in range(20_000):
        rows.put(chance.randrange(10**12), id_, id_)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(rows) == 20_000
    assert taken < 20_000 * 40
