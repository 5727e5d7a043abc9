"""Many seeds, or one with everything that happens in it.

python -m tests.sim --seeds 1000 [--first 0] [--jobs 2]   seeds per second, and which of them fail
python -m tests.sim --seed 7                              what happens in one of them

There are two worlds. In `raft`, the quorum's machine alone goes through faults, thousands of them
a second. In `cluster`, whole nodes with their disks, coordinators and clients do. Without --world,
many seeds are lived through in both, and one seed is told from the cluster.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from penstock.model.invariants import InvariantViolated

from . import cluster_story, raft_story

Teller = Callable[[str], None]
BROKEN = (AssertionError, InvariantViolated)
COLLECT_EVERY = 10
PROGRESS_EVERY = 100


def live_raft(seed: int, teller: Teller | None = None) -> None:
    raft_story.judge(raft_story.live(seed, teller=teller))


def live_cluster(seed: int, teller: Teller | None = None) -> None:
    cluster_story.live(seed, teller)


WORLDS: dict[str, Callable[[int, Teller | None], None]] = {
    "raft": live_raft,
    "cluster": live_cluster,
}


def replay(world: str, seed: int) -> int:
    """Tell one seed's story, line by line."""
    try:
        WORLDS[world](seed, print)
    except BROKEN as problem:
        print(f"seed {seed} FAILS: {problem}")
        return 1
    print(f"seed {seed} keeps its promises")
    return 0


def try_one(world: str, seed: int) -> tuple[int, str]:
    """Live through one seed; answers what went wrong, or nothing."""
    # A process that is killed leaves coroutines behind that it had not begun: so does a real one.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    if seed % COLLECT_EVERY == 0:
        gc.collect()
    try:
        WORLDS[world](seed, None)
    except BROKEN as problem:
        return seed, str(problem)
    except Exception as problem:  # noqa: BLE001 - told with its seed, and the others go on
        return seed, repr(problem)
    return seed, ""


def run(world: str, first: int, count: int, jobs: int) -> int:
    """Live through many seeds; answers how many of them failed."""
    began = time.perf_counter()
    seeds = range(first, first + count)
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            failed = tell(world, pool.map(partial(try_one, world), seeds, chunksize=5))
    else:
        failed = tell(world, (try_one(world, seed) for seed in seeds))
    seconds = time.perf_counter() - began
    print(f"{world}: {count} seeds, {failed} failed, {count / seconds:.1f} seeds per second")
    return failed


def tell(world: str, outcomes: Iterable[tuple[int, str]]) -> int:
    """Say which seeds failed, as soon as they do, and how to see it again; and how far it is."""
    failed = 0
    for number, (seed, problem) in enumerate(outcomes, 1):
        if number % PROGRESS_EVERY == 0:
            print(f"{world}: {number} seeds, up to {seed}", file=sys.stderr, flush=True)
        if problem:
            failed += 1
            again = f"python -m tests.sim --world {world} --seed {seed}"
            print(f"{world} seed {seed} FAILS: {problem} (again with: {again})", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    one_or_many = parser.add_mutually_exclusive_group(required=True)
    one_or_many.add_argument("--seed", type=int, help="replay one seed with a transcript")
    one_or_many.add_argument("--seeds", type=int, help="how many seeds to live through")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--world", choices=list(WORLDS), help="where to live through them")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the work")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        return replay(chosen.world or "cluster", chosen.seed)
    worlds = [chosen.world] if chosen.world else list(WORLDS)
    failed = sum(run(world, chosen.first, chosen.seeds, chosen.jobs) for world in worlds)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
