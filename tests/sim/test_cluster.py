"""Whole clusters under every fault that the world can play, by seed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.model.invariants import InvariantViolated

from .cluster_planted import PLANTED, Bug, planted
from .cluster_story import live

# A process that is killed leaves coroutines behind that it had not begun: so does a real one.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

SEEDS = int(os.environ.get("PENSTOCK_SIM_CLUSTER_SEEDS", "20"))
PLANTED_SEEDS_MAX = 60

TRANSCRIPT = """
import sys
from tests.sim.cluster_story import GUESTS, live
live(int(sys.argv[1]), print, GUESTS)
"""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_cluster_keeps_its_promises_and_recovers(seed: int) -> None:
    live(seed)


def test_a_seed_tells_the_same_story_whatever_the_order_of_hashes() -> None:
    stories = [
        subprocess.run(
            [sys.executable, "-c", TRANSCRIPT, "7"],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert len(stories[0].splitlines()) > 50


@pytest.mark.parametrize("bug", PLANTED, ids=str)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    for seed in dict.fromkeys((bug.seed, *range(PLANTED_SEEDS_MAX))):
        try:
            with planted(bug):
                live(seed, guests=bug.guests)
        except (AssertionError, InvariantViolated):
            return
    raise AssertionError(f"{bug} was not found in {PLANTED_SEEDS_MAX} worlds")
