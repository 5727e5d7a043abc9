"""Quorums under every fault that the world can play, by seed."""

from __future__ import annotations

import os

import pytest

from penstock.model.invariants import InvariantViolated
from penstock.raft.machine import Raft

from .planted import PLANTED
from .raft_story import judge, live

SEEDS = int(os.environ.get("PENSTOCK_SIM_SEEDS", "60"))
PLANTED_SEEDS_MAX = 200


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_quorum_keeps_its_promises_and_recovers(seed: int) -> None:
    judge(live(seed))


def test_a_seed_tells_the_same_story_twice() -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        live(7, teller=story.append)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 100


@pytest.mark.parametrize("broken", PLANTED)
def test_a_planted_bug_is_found(broken: type[Raft]) -> None:
    for seed in (PLANTED[broken], *range(PLANTED_SEEDS_MAX)):
        try:
            judge(live(seed, broken))
        except (AssertionError, InvariantViolated):
            return
    raise AssertionError(f"{broken.__name__} was not found in {PLANTED_SEEDS_MAX} worlds")
