"""Compaction of any log, and a crash at any step of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.platform import disk as disk_module
from penstock.platform.workers import InlineWorkers
from penstock.storage.compaction import Compactor
from tests.unit.storage.compaction_bench import CONFIG, DAY, Bench

keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
values = st.none() | st.binary(min_size=1, max_size=8)
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=4)
producer = st.sampled_from([-1, 1, 2])
step = st.one_of(
    st.tuples(st.just("append"), pairs, producer, st.integers(0, 4)),
    st.tuples(st.just("txn"), pairs, st.sampled_from([3, 4]), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("wait"), st.sampled_from([1, DAY // 2, DAY])),
    st.tuples(st.just("compact")),
)
steps = st.lists(step, min_size=3, max_size=25)

Row = tuple[int, bytes | None, bytes | None]


class Model:
    """Applies steps to a log, and knows what every reader must find."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.written: dict[int, Row] = {}
        self.latest: dict[bytes, bytes | None] = {}
        self.sequences: dict[int, int] = {}

    def apply(self, step: tuple[Any, ...]) -> None:
        bench = self.bench
        match step:
            case ("append", rows, producer_id, codec):
                self._append(rows, producer_id, compression=codec)
                self._visible(rows)
            case ("txn", rows, producer_id, commit):
                self._append(rows, producer_id, transactional=True)
                bench.end_txn(producer_id, commit=commit)
                if commit:
                    self._visible(rows)
            case ("roll",):
                if bench.log.active.size:
                    bench.roll()
            case ("wait", milliseconds):
                bench.now += milliseconds
            case ("compact",):
                bench.compact()

    def _append(
        self, rows: list[tuple[bytes, bytes | None]], producer_id: int, **rest: Any
    ) -> None:
        base = self.bench.log.end
        settings: dict[str, Any] = rest
        if producer_id >= 0:
            sequence = self.sequences.get(producer_id, 0)
            settings |= {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": sequence,
            }
            self.sequences[producer_id] = sequence + len(rows)
        self.bench.append(rows, **settings)
        for offset, (key, value) in enumerate(rows, base):
            self.written[offset] = (offset, key, value)

    def _visible(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        self.latest.update(rows)

    def check(self) -> None:
        bench = self.bench
        found = bench.records()
        offsets = [row[0] for row in found]
        assert offsets == sorted(set(offsets)), "order is kept"
        assert all(self.written[row[0]] == row for row in found), "offsets and values are kept"
        for key, value in self.latest.items():
            if value is not None:
                assert (key, value) in {(row[1], row[2]) for row in found}, "the last value is kept"
        for producer_id, sequence in self.sequences.items():
            state = bench.log.producers.by_id[producer_id]
            assert state.next_sequence == sequence, "sequences go on where they were"


@settings(max_examples=60)
@given(steps)
def test_readers_find_the_last_value_of_each_key_in_order(script: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        model = Model(Bench(root))
        for each in [*script, ("roll",), ("compact",)]:
            model.apply(each)
            model.check()
        assert not model.bench.compactor.uncleanable
        model.bench.reopen()
        model.check()
        # Rebuilt from the batches alone, the producers are the same: nothing they need was taken.
        for path in Path(model.bench.directory).glob("*.snapshot"):
            path.unlink()
        model.bench.reopen()
        model.check()


@settings(max_examples=30)
@given(steps)
def test_what_is_left_after_a_long_time_is_one_record_for_each_live_key(
    script: list[tuple[Any, ...]],
) -> None:
    with tempfile.TemporaryDirectory() as root:
        model = Model(Bench(root))
        for each in script:
            model.apply(each)
        for _ in range(3):  # set the horizons, pass them, and take the markers after the data
            model.apply(("append", [(b"z", b"last")], -1, 0))
            model.apply(("roll",))
            model.apply(("compact",))
            model.bench.now += DAY
        live = {key: value for key, value in model.latest.items() if value is not None}
        assert {row[1]: row[2] for row in model.bench.records()} == live
        assert len(model.bench.records()) == len(live)


class Crash(BaseException):
    """The process is gone. Not an Exception: nobody may handle it."""


@contextmanager
def crash_after(count: int) -> Iterator[list[str]]:
    """Let the first `count` changes to the disk happen, and nothing after them."""
    done: list[str] = []

    def guarded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(done) >= count:
                raise Crash
            done.append(name)
            return real(*args, **kwargs)

        return call

    with (
        mock.patch.object(os, "rename", guarded("rename", os.rename)),
        mock.patch.object(os, "unlink", guarded("unlink", os.unlink)),
        mock.patch.object(os, "ftruncate", guarded("ftruncate", os.ftruncate)),
        mock.patch.object(disk_module, "_pwrite", guarded("write", os.pwrite)),
    ):
        yield done


def dirty_bench(root: str) -> Model:
    """Two groups of two segments with something to remove in each."""
    model = Model(Bench(root, CONFIG._replace(segment_bytes=900)))
    for number in range(4):
        rows = [(b"a", b"%d" % number), (b"b%d" % number, b"x" * 200)]
        model.apply(("append", rows, 1, 0))
        model.apply(("txn", [(b"a", b"t%d" % number)], 3, number % 2 == 0))
        model.apply(("roll",))
    return model


def count_changes() -> int:
    with tempfile.TemporaryDirectory() as root:
        model = dirty_bench(root)
        with crash_after(10**9) as done:
            model.apply(("compact",))
        assert len([s for s in model.bench.log.segments if s.size]) < 4
        return len(done)


CHANGES = count_changes()


@pytest.mark.parametrize("count", range(CHANGES + 1))
@pytest.mark.parametrize("clean", [False, True])
def test_a_crash_at_any_step_leaves_a_log_that_opens_with_all(count: int, clean: bool) -> None:
    with tempfile.TemporaryDirectory() as root:
        model = dirty_bench(root)
        end = model.bench.log.end
        with crash_after(count) as done:
            try:
                model.apply(("compact",))
            except Crash:
                pass  # what this test is about
        assert len(done) == count
        model.bench.reopen(clean=clean)
        assert model.bench.log.end == end
        model.check()
        left = os.listdir(model.bench.directory)
        assert not [name for name in left if name.endswith((".swap", ".cleaned", ".deleted"))]
        # And the next round goes on from there.
        model.bench.compactor = Compactor(model.bench.disk, InlineWorkers())
        model.apply(("append", [(b"a", b"after")], 1, 0))
        model.apply(("roll",))
        model.apply(("compact",))
        model.check()
        assert [row for row in model.bench.records() if row[1] == b"a"][-1][2] == b"after"
