"""What a target is, and the bounds that it is held to."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MEMORY_BASE = 1 << 20
"""Bytes that any reader may take, however short its input: caches, tables, error messages."""
MEMORY_PER_BYTE = 200
"""Bytes that a reader may take for each byte of input: objects are larger than what they mean."""
SECONDS_BASE = 0.5
SECONDS_PER_BYTE = 50e-6
TRIES = 3


@dataclass(frozen=True)
class Target:
    """One reader of foreign bytes."""

    name: str
    run: Callable[[bytes], None]
    """Takes any bytes; AssertionError, or any other exception, is a finding."""
    seeds: Callable[[], Iterable[bytes]]
    """Honest inputs, and hostile ones that are easier to write as code than as bytes."""
    size_max: int = 4096
    """What mutation makes at most: longer inputs find the same things more slowly."""
    memory_base: int = MEMORY_BASE

    def examine(self, data: bytes) -> None:
        """Run, and hold the time that it took against the bound.

        What is slow is slow every time; a collection of all that other tests have left is not.
        """
        allowed = SECONDS_BASE + SECONDS_PER_BYTE * len(data)
        for _ in range(TRIES):
            began = time.thread_time()
            self.run(data)
            taken = time.thread_time() - began
            if taken <= allowed:
                return
        raise AssertionError(f"{len(data)} bytes took {taken:.2f} s, not {allowed:.2f} s")

    def weigh(self, data: bytes) -> int:
        """Run, and hold the peak of memory against the bound.

        It runs twice: the first time imports what is imported lazily, which is nobody's input.
        """
        self.run(data)
        tracemalloc.start()
        try:
            self.run(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        allowed = self.memory_base + MEMORY_PER_BYTE * len(data)
        assert peak <= allowed, f"{len(data)} bytes took {peak} bytes of memory, not {allowed}"
        return peak
