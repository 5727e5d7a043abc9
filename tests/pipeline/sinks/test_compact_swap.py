"""Compaction's swap of files, interrupted after every step, with and without help of the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.pipeline.sinks import lake_disk as disk
from penstock.pipeline.sinks import lake_swap
from penstock.pipeline.sinks.lake_publication import HIDDEN

OLD = ("a.parquet", "b.parquet")


def no_exchange(one: str, other: str) -> bool:
    return False


def make(tmp_path: Path, name: str, folder: str) -> tuple[str, lake_swap.Swap]:
    lake = tmp_path / name
    (lake / folder).mkdir(parents=True)
    (lake / HIDDEN).mkdir()
    for file in (*OLD, "stays.parquet"):
        (lake / folder / file).write_text(file[0])
    swap = lake_swap.new_swap(str(lake), folder, OLD, ".parquet")
    Path(lake_swap.aside(str(lake), swap.id), swap.new).write_text("ab")
    return str(lake), swap


def rows(lake: str, folder: str) -> str:
    return "".join(sorted("".join(p.read_text() for p in Path(lake, folder).glob("*.parquet"))))


@pytest.mark.parametrize("exchange", [disk.exchange, no_exchange])
@pytest.mark.parametrize("folder", ["day=1", ""])
def test_every_row_is_there_once_wherever_the_swap_was_interrupted(
    tmp_path: Path, exchange: Callable[[str, str], bool], folder: str
) -> None:
    total = len(list(lake_swap.steps(*make(tmp_path, "count", folder), exchange=exchange)))
    swapped = 0
    for stop in range(total + 1):
        lake, swap = make(tmp_path, f"lake{stop}", folder)
        for step in list(lake_swap.steps(lake, swap, exchange=exchange))[:stop]:
            step.do()
        lake_swap.recover_compaction(lake)
        assert rows(lake, folder) == "abs", f"interrupted after {stop} steps"
        assert os.listdir(lake_swap.compaction_folder(lake)) == ["lock"]
        swapped += os.path.exists(os.path.join(lake, folder, swap.new))
    assert 0 < swapped < total


def test_old_files_that_were_gone_in_part_are_gone_after_recovery(tmp_path: Path) -> None:
    lake, swap = make(tmp_path, "lake", "day=1")
    steps = list(lake_swap.steps(lake, swap, exchange=no_exchange))
    for step in steps[:3]:
        step.do()
    os.link(f"{lake_swap.aside(lake, swap.id)}/{swap.new}", f"{lake}/day=1/{swap.new}")
    os.unlink(f"{lake}/day=1/{OLD[0]}")
    lake_swap.recover_compaction(lake)
    assert rows(lake, "day=1") == "abs"


def test_a_compaction_at_work_is_left_alone(tmp_path: Path) -> None:
    lake, swap = make(tmp_path, "lake", "day=1")
    with disk.locked(lake_swap.run_lock_of(lake)):
        lake_swap.recover_compaction(lake)
        assert os.path.exists(lake_swap.aside(lake, swap.id))
    lake_swap.recover_compaction(lake)
    assert not os.path.exists(lake_swap.aside(lake, swap.id))


def test_folders_are_exchanged_here_or_the_other_way_is_taken(tmp_path: Path) -> None:
    lake, swap = make(tmp_path, "lake", "day=1")
    lake_swap.run(lake, swap)
    lake_swap.forget(lake, swap.id)
    assert rows(lake, "day=1") == "abs"
    assert sorted(os.listdir(f"{lake}/day=1")) == sorted([swap.new, "stays.parquet"])
