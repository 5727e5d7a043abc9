"""Time limits that mean the same on a busy machine as on a quiet one.

What is measured is CPU time, which other processes inflate less than the clock on the wall, and
still do, by sharing caches and cores. So a piece of known work is measured beside it.
"""

from __future__ import annotations

import compileall
import os
import resource
import subprocess
import sys
from collections.abc import Callable

import penstock

QUIET_SECONDS = 0.060
"""What the known work takes on a quiet machine of the kind that the limits were written for."""

TRIES = 10


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of the processes that `work` starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds_when_quiet(work: Callable[[], object], enough: float) -> float:
    """The CPU time of `work` as it would be on a quiet machine: the best of some tries.

    It does not try again once it was below `enough`.
    """
    # As an installer does. In a checkout whose owner has PYTHONDONTWRITEBYTECODE set, every
    # process would compile every module for itself, and that is not what is measured.
    compileall.compile_dir(os.path.dirname(penstock.__file__), quiet=1)
    best = float("inf")
    for _ in range(TRIES):
        slowness = max(1.0, cpu_seconds(_known_work) / QUIET_SECONDS)
        best = min(best, cpu_seconds(work) / slowness)
        if best < enough:
            break
    return best


def _known_work() -> None:
    subprocess.run([sys.executable, "-c", "import asyncio, ssl"], check=True)
