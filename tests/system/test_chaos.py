"""Two minutes of faults by chance over three real nodes; `make chaos MINUTES=60` plays longer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.oracle.nodes import Node
from tests.system.chaos.judge import judge
from tests.system.chaos.load import Load
from tests.system.chaos.run import Game
from tests.system.chaos.trio import Trio

SECONDS = float(os.environ.get("PENSTOCK_TEST_CHAOS_SECONDS", "80"))
"""Starting, judging and the last fault's end take the rest of two minutes."""


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 400)
def test_faults_by_chance_lose_nothing_and_double_nothing(
    target: type[Node], tmp_path: Path
) -> None:
    seed = int(os.environ.get("PENSTOCK_TEST_SEED", time.time_ns() % 1_000_000))
    print(f"PENSTOCK_TEST_SEED={seed} makes the same choices")
    with Trio(tmp_path, target) as trio, Load(trio, tmp_path / "load") as load:
        game = Game(trio, load, seed)
        game.play(SECONDS)
        history, wrong = judge(trio, load)
    assert [*game.problems, *wrong] == []
    assert len(game.played) >= 3, "hardly anything happened"
    print(f"{load.acknowledged} records, {len(history)} operations, {len(game.played)} faults")
