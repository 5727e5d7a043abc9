"""How much CPU a call takes, whatever else this process has to do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

TRIES = 3


def cpu_seconds(work: Callable[[], object]) -> float:
    """The least of some tries, in this thread alone.

    A process that has run a thousand tests has much garbage to look through and threads of clients
    that are about to end: half a second of that, now and then, is booked to whoever runs.
    """
    took = []
    gc.disable()
    try:
        for _ in range(TRIES):
            begun = time.thread_time()
            work()
            took.append(time.thread_time() - begun)
    finally:
        gc.enable()
    return min(took)
