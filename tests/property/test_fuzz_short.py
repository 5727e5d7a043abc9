"""The fuzz targets without their engine: the corpus again, and some seconds of blind mutation.

`make fuzz` looks longer and is led by coverage. A failure here prints the input as a line for
tests/fuzz/corpus; PENSTOCK_FUZZ_SECONDS lengthens the search, PENSTOCK_FUZZ_SEED repeats one.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.fuzz import corpus
from tests.fuzz.mutation import mutated
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

SECONDS = float(os.environ.get("PENSTOCK_FUZZ_SECONDS", "15")) / len(TARGETS)
SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "0")) or int.from_bytes(os.urandom(4))
WEIGHED_MAX = 50
CORPUS_BYTES_MAX = 1_000_000

each_target = pytest.mark.parametrize("name", TARGETS)


def _examine(target: Target, data: bytes) -> None:
    try:
        target.examine(data)
    except BaseException:
        print(f"seed {SEED}; for tests/fuzz/corpus/{target.name}.txt:\nfound-name {data.hex()}")
        raise


@each_target
def test_what_was_found_once_is_answered_as_it_should_be(name: str) -> None:
    target = TARGETS[name]
    inputs = corpus.inputs(target)
    assert inputs
    for data in inputs:
        _examine(target, data)


@each_target
def test_no_input_takes_more_memory_than_its_length_allows(name: str) -> None:
    target = TARGETS[name]
    # The long ones, and a choice of the rest: following memory makes everything slow.
    inputs = sorted(corpus.inputs(target), key=len, reverse=True)
    step = max(1, len(inputs) // WEIGHED_MAX)
    for data in [*inputs[:10], *inputs[10::step]]:
        target.weigh(data)


@each_target
def test_changed_inputs_are_taken_or_refused_by_name(name: str) -> None:
    target = TARGETS[name]
    inputs = corpus.inputs(target)
    chance = random.Random(f"{SEED}-{name}")
    end = time.monotonic() + SECONDS
    runs = 0
    while time.monotonic() < end:
        _examine(target, mutated(chance, inputs, target.size_max))
        runs += 1
    assert runs > 0


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    files = list(corpus.FOLDER.glob("*.txt"))
    assert {path.stem for path in files} <= set(TARGETS)
    assert sum(path.stat().st_size for path in files) < CORPUS_BYTES_MAX
