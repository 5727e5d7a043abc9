"""Fuzz all targets for some minutes: `python -m tests.fuzz --minutes 10`, or `make fuzz`.

Needs atheris (`pip install -e '.[fuzz]'`). Ends with status 1 if anything was found, and prints
each input as the line that belongs into the corpus once the bug is fixed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import corpus
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

RSS_MB_MAX = 1024
ONE_ALLOCATION_MB_MAX = 128
SECONDS_PER_INPUT_MAX = 10
KEPT_BYTES_MAX = 12_000
"""Of new inputs of one target that one `--keep` adds: the corpus is to stay small."""


class Outcome(NamedTuple):
    """What a run of one target brought."""

    target: Target
    runs: int
    fresh: list[bytes]
    """Inputs that reach code which the ones before did not."""
    found: list[bytes]
    tail: str
    """The end of what the engine said."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is missing: pip install -e '.[fuzz]'", file=sys.stderr)
        return 2
    chosen = [TARGETS[name] for name in options.only or TARGETS]
    seconds = max(5, int(options.minutes * 60 * options.jobs / len(chosen)))
    print(f"{len(chosen)} targets, {seconds} s each, {options.jobs} at a time", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as folder:

        def run(target: Target) -> Outcome:
            return _run(target, Path(folder) / target.name, seconds)

        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = []
            for outcome in pool.map(run, chosen):
                outcomes.append(outcome)
                _tell(outcome)
    if options.keep:
        for outcome in outcomes:
            _keep(outcome)
    return 1 if any(outcome.found for outcome in outcomes) else 0


def _run(target: Target, folder: Path, seconds: int) -> Outcome:
    known = folder / "corpus"
    found = folder / "found"
    for each in (known, found):
        each.mkdir(parents=True)
    inputs = corpus.inputs(target)
    for number, data in enumerate(inputs):
        (known / f"{number:06d}").write_bytes(data)
    command = [
        sys.executable, "-m", "tests.fuzz.engine", target.name, str(known),
        f"-artifact_prefix={found}/", f"-max_total_time={seconds}", f"-max_len={target.size_max}",
        f"-timeout={SECONDS_PER_INPUT_MAX}", f"-rss_limit_mb={RSS_MB_MAX}",
        f"-malloc_limit_mb={ONE_ALLOCATION_MB_MAX}", "-print_final_stats=1",
    ]  # fmt: skip
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    counted = re.search(r"stat::number_of_executed_units:\s*(\d+)", ran.stdout)
    crashed = [path.read_bytes() for path in sorted(found.iterdir())]
    # Without an input to blame, the target itself or its seeds are broken.
    failed = ran.returncode != 0 and not crashed
    fresh = [path.read_bytes() for path in known.iterdir() if not path.name.isdigit()]
    return Outcome(
        target,
        int(counted[1]) if counted else 0,
        fresh,
        [b""] if failed else crashed,
        ran.stdout[-4000:],
    )


def _tell(outcome: Outcome) -> None:
    target, runs, fresh, found, tail = outcome
    print(f"{target.name:22} {runs:9} runs, {len(fresh):4} new, {len(found)} found", flush=True)
    for data in found:
        print(f"{tail}\nfound-{int(time.time())} {data.hex()}", flush=True)


def _keep(outcome: Outcome) -> None:
    """The shortest of what is new, up to a bound."""
    chosen, size = [], 0
    for data in sorted(outcome.fresh, key=len):
        size += len(data)
        if size > KEPT_BYTES_MAX:
            break
        chosen.append(data)
    print(f"{outcome.target.name}: {corpus.keep(outcome.target, chosen)} kept")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="for all targets together")
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), metavar="TARGET")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--keep", action="store_true", help="add what is new to the corpus")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
