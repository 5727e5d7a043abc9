"""What nodes log, as lines of a transcript; and their own faults, as failures of the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.testing.sim.loop import SimulatedLoop
from penstock.testing.sim.process import CURRENT

ROOT = logging.getLogger("penstock")


class _Ear(logging.Handler):
    def __init__(self, loop: SimulatedLoop, teller: Callable[[str], None] | None) -> None:
        super().__init__()
        self._loop = loop
        self._teller = teller

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        process = CURRENT.get()
        who = "nobody" if process is None else process.host
        if process is not None and not process.alive:
            return  # what is collected after its death says nothing
        if problem is not None and not isinstance(problem, OSError):
            self._loop.failures.append(f"{who}: {record.getMessage()}: {problem!r}")
        if self._teller is not None:
            said = record.getMessage() if problem is None else f"{record.getMessage()}: {problem!r}"
            self._teller(f"{who} {record.levelname.lower()} {said}")


@contextmanager
def heard(loop: SimulatedLoop, teller: Callable[[str], None] | None) -> Iterator[None]:
    """Listen to all nodes within the block: to everything for a transcript, else to faults."""
    ear = _Ear(loop, teller)
    level, propagates = ROOT.level, ROOT.propagate
    ROOT.addHandler(ear)
    ROOT.setLevel(logging.INFO if teller is not None else logging.ERROR)
    ROOT.propagate = False
    try:
        yield
    finally:
        ROOT.removeHandler(ear)
        ROOT.setLevel(level)
        ROOT.propagate = propagates
