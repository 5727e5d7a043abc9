"""Many seeds, or one with everything that happens in it.

python -m tests.sim --seeds 1000 [--first 0]     how many worlds per second, and which of them fail
python -m tests.sim --seed 7                     what happens in one of them
"""

from __future__ import annotations

import argparse
import sys
import time

from penstock.model.invariants import InvariantViolated

from .raft_story import judge, live


def replay(seed: int) -> int:
    """Tell one seed's story, line by line."""
    try:
        judge(live(seed, teller=print))
    except (AssertionError, InvariantViolated) as problem:
        print(f"seed {seed} FAILS: {problem}")
        return 1
    print(f"seed {seed} keeps its promises")
    return 0


def run(first: int, count: int) -> int:
    """Live through many seeds; answers how many of them failed."""
    failed = 0
    began = time.perf_counter()
    for seed in range(first, first + count):
        try:
            judge(live(seed))
        except (AssertionError, InvariantViolated) as problem:
            failed += 1
            print(f"seed {seed} FAILS: {problem} (again with: python -m tests.sim --seed {seed})")
    seconds = time.perf_counter() - began
    print(f"{count} seeds, {failed} failed, {count / seconds:.1f} seeds per second")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    one_or_many = parser.add_mutually_exclusive_group(required=True)
    one_or_many.add_argument("--seed", type=int, help="replay one seed with a transcript")
    one_or_many.add_argument("--seeds", type=int, help="how many seeds to live through")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        return replay(chosen.seed)
    return 1 if run(chosen.first, chosen.seeds) else 0


if __name__ == "__main__":
    sys.exit(main())
