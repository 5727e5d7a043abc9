from __future__ import annotations

import pytest

from penstock.storage.epochs import CorruptEpochs, LeaderEpochs, format_epochs, parse_epochs


class Saved:
    """Remembers what was written last, as the file would."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.writes = 0

    def __call__(self, text: str) -> None:
        self.text = text
        self.writes += 1


@pytest.fixture
def saved() -> Saved:
    return Saved()


@pytest.fixture
def epochs(saved: Saved) -> LeaderEpochs:
    epochs = LeaderEpochs(saved)
    for epoch, start in ((2, 10), (4, 30), (7, 50)):
        epochs.assign(epoch, start)
    return epochs


def test_the_file_is_kafkas(epochs: LeaderEpochs, saved: Saved) -> None:
    assert saved.text == "0\n3\n2 10\n4 30\n7 50\n"
    assert LeaderEpochs(saved, saved.text).entries == [(2, 10), (4, 30), (7, 50)]


def test_a_known_epoch_is_not_written_again(epochs: LeaderEpochs, saved: Saved) -> None:
    before = saved.writes
    epochs.assign(7, 55)
    epochs.assign(7, 50)
    assert saved.writes == before
    assert epochs.latest == 7


def test_an_epoch_that_wrote_nothing_is_replaced(epochs: LeaderEpochs) -> None:
    epochs.assign(9, 50)
    assert epochs.entries == [(2, 10), (4, 30), (9, 50)]


def test_entries_that_contradict_a_new_one_go(epochs: LeaderEpochs) -> None:
    epochs.assign(5, 20)
    assert epochs.entries == [(2, 10), (5, 20)]
    epochs.assign(1, 40)
    assert epochs.entries == [(1, 40)]


def test_an_epoch_that_began_earlier_than_known_is_corrected(epochs: LeaderEpochs) -> None:
    epochs.assign(7, 45)
    assert epochs.entries == [(2, 10), (4, 30), (7, 45)]


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),  # a follower that knows none
        (1, (1, 10)),  # gone from the log: go on at its start
        (2, (2, 30)),
        (3, (2, 30)),
        (4, (4, 50)),
        (6, (4, 50)),
        (7, (7, 99)),  # the current one ends at the log's end
        (8, (-1, -1)),  # unheard of
    ],
)
def test_where_an_epoch_ends(epochs: LeaderEpochs, epoch: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(epoch, 99) == answer


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, -1), (9, -1), (10, 2), (29, 2), (30, 4), (50, 7), (1000, 7)]
)
def test_which_epoch_wrote_an_offset(epochs: LeaderEpochs, offset: int, epoch: int) -> None:
    assert epochs.epoch_for(offset) == epoch


def test_where_an_epoch_begins(epochs: LeaderEpochs) -> None:
    assert epochs.start_of(4) == 30
    assert epochs.start_of(5) is None


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (51, [(2, 10), (4, 30), (7, 50)]),
        (50, [(2, 10), (4, 30)]),
        (31, [(2, 10), (4, 30)]),
        (30, [(2, 10)]),
        (0, []),
    ],
)
def test_cutting_the_end_drops_epochs_that_begin_there(
    epochs: LeaderEpochs, saved: Saved, end: int, left: list[tuple[int, int]]
) -> None:
    epochs.truncate_from_end(end)
    assert epochs.entries == left
    assert epochs.latest == (left[-1][0] if left else -1)
    assert saved.text is not None and parse_epochs(saved.text) == left


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (5, [(2, 10), (4, 30), (7, 50)]),
        (10, [(2, 10), (4, 30), (7, 50)]),
        (20, [(2, 20), (4, 30), (7, 50)]),
        (30, [(4, 30), (7, 50)]),
        (80, [(7, 80)]),
    ],
)
def test_cutting_the_start_keeps_the_epoch_that_holds_it(
    epochs: LeaderEpochs, saved: Saved, start: int, left: list[tuple[int, int]]
) -> None:
    epochs.truncate_from_start(start)
    assert epochs.entries == left
    assert saved.text is not None and parse_epochs(saved.text) == left


def test_clearing_forgets_all(epochs: LeaderEpochs, saved: Saved) -> None:
    epochs.clear()
    assert (len(epochs), epochs.latest, saved.text) == (0, -1, "0\n0\n")


def test_restoring_writes_nothing(saved: Saved) -> None:
    epochs = LeaderEpochs(saved)
    epochs.restore([(1, 0), (3, 8)])
    assert epochs.entries == [(1, 0), (3, 8)]
    assert saved.writes == 0


@pytest.mark.parametrize(
    "text",
    ["", "0", "0\n", "1\n0\n", "0\n2\n1 5\n", "0\n1\n1\n", "0\n1\n1 x\n", "0\n1\n1 -5\n", "x\n0\n"],
)
def test_anything_else_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptEpochs):
        parse_epochs(text)


def test_formatting_and_parsing_agree() -> None:
    assert parse_epochs(format_epochs([(0, 0), (5, 2**60)])) == [(0, 0), (5, 2**60)]
