"""Which offsets a slice of a log holds, by the heads of its batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.coordination.delivery.effects import Span
from penstock.platform.disk import Disk
from penstock.records.batch import place
from penstock.records.builder import BatchBuilder, end_txn_batch
from penstock.server.share_spans import WINDOW, Batches, batches_in, cut
from penstock.storage.log_slice import LogSlice

MANY = 1 << 30
Slice = Callable[..., LogSlice]


def data(count: int, size: int = 10, producer: int = -1) -> bytes:
    builder = BatchBuilder()
    if producer >= 0:
        builder = BatchBuilder(
            producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        )
    for _ in range(count):
        builder.append(None, b"x" * size, 1)
    return bytes(builder.build())


def marker(producer: int, *, is_commit: bool = False) -> bytes:
    return bytes(
        end_txn_batch(
            is_commit=is_commit,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
        )
    )


@pytest.fixture
def sliced(tmp_path: Path) -> Slice:
    """Batches one after the other in a file, the first at offset 100."""

    def make(*batches: bytes, size: int | None = None) -> LogSlice:
        file = Disk().open(str(tmp_path / "log"), create=True)
        file.append(b"something before")
        offset = 100
        for batch in batches:
            placed = bytearray(batch)
            place(placed, offset, 0)
            file.append(placed)
            offset += int.from_bytes(placed[57:61], "big")
        whole = sum(map(len, batches))
        return LogSlice(file, 16, whole if size is None else size)

    return make


def found(found: LogSlice, offset: int = 100, count_max: int = MANY) -> Batches:
    return batches_in(found, offset, count_max)


def test_every_batch_is_found_whatever_its_size(sliced: Slice) -> None:
    batches = [data(3), data(1, WINDOW), data(2), data(5, 3 * WINDOW), data(1)]
    seen = found(sliced(*batches))
    assert seen.spans == [
        Span(100, 102),
        Span(103, 103),
        Span(104, 105),
        Span(106, 110),
        Span(111, 111),
    ]
    assert seen.ends == list(itertools.accumulate(map(len, batches)))
    assert seen.hidden == []


def test_many_small_batches_are_found_across_windows(sliced: Slice) -> None:
    batches = [data(1, size % 50) for size in range(300)]
    assert found(sliced(*batches)).spans == [Span(at, at) for at in range(100, 400)]


@pytest.mark.parametrize("missing", [1, 30, 60])
def test_a_batch_that_a_limit_cut_off_does_not_count(sliced: Slice, missing: int) -> None:
    batches = [data(3), data(2)]
    size = sum(map(len, batches)) - missing
    assert found(sliced(*batches, size=size)).spans == [Span(100, 102)]


def test_no_more_batches_are_looked_at_than_hold_what_is_wanted(sliced: Slice) -> None:
    batches = [data(3), data(3), data(3)]
    assert found(sliced(*batches), 100, 3).spans == [Span(100, 102)]
    assert found(sliced(*batches), 100, 4).spans == [Span(100, 102), Span(103, 105)]
    # Counted from where was asked: what lies before it in the first batch is none of it.
    assert found(sliced(*batches), 102, 2).spans == [Span(100, 102), Span(103, 105)]


def test_markers_of_transactions_hold_nothing_for_anybody(sliced: Slice) -> None:
    seen = found(sliced(data(2, producer=7), marker(7, is_commit=True), data(1)))
    assert seen.spans == [Span(100, 101), Span(102, 102), Span(103, 103)]
    assert seen.hidden == [Span(102, 102)]


def test_a_batch_that_was_emptied_holds_nothing(sliced: Slice) -> None:
    empty = bytearray(data(2))
    empty[57:61] = bytes(4)  # as compaction leaves it, to keep the producer's sequence
    assert batches_in(sliced(data(1), empty), 100, MANY).hidden == [Span(101, 102)]


def test_what_was_aborted_is_hidden_and_nothing_else_is(sliced: Slice) -> None:
    whole = sliced(
        data(2, producer=7),  # 100, aborted
        data(1),  # 102
        data(1, producer=8),  # 103, committed
        data(1, producer=7),  # 104, aborted
        marker(7),  # 105
        data(1, producer=7),  # 106, of the next transaction
        marker(8, is_commit=True),  # 107
    )
    seen = batches_in(whole, 100, MANY, [(7, 100)])
    hidden = [Span(100, 101), Span(104, 104), Span(105, 105), Span(107, 107)]
    assert seen.hidden == hidden


def test_a_transaction_whose_marker_comes_first_hides_nothing_behind_it(sliced: Slice) -> None:
    seen = batches_in(sliced(marker(7), data(1, producer=7)), 100, MANY, [(7, 90)])
    assert seen.hidden == [Span(100, 100)]


def test_a_slice_is_cut_to_the_batches_that_hold_what_is_sent(sliced: Slice) -> None:
    batches = [data(3), data(3), data(3), data(3)]
    whole = sliced(*batches)
    seen = found(whole)
    size = len(batches[0])
    for first, last, position, length in (
        (100, 111, 0, 4),
        (100, 100, 0, 1),
        (104, 107, 1, 2),
        (111, 111, 3, 1),
    ):
        part = cut(whole, seen, first, last)
        assert (part.position, part.size) == (16 + position * size, length * size)
