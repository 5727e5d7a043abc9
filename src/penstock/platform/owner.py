"""A process that does not outlive whoever started it.

Standard input is a pipe that the owner holds and never writes to. When the owner ends, however
badly, the pipe closes. (The kernel's parent-death signal would do for an owner with one thread
only: it is sent when the thread that started the child ends.)
"""

from __future__ import annotations

import os
import signal
import threading


def stop_with_owner() -> threading.Event:
    """Send this process SIGTERM when its owner is gone; the event says that it is."""
    orphaned = threading.Event()
    threading.Thread(target=_watch, args=(orphaned,), name="owner", daemon=True).start()
    return orphaned


def _watch(orphaned: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    orphaned.set()
    # Nobody reads what it prints from now on, and a closed pipe must not spoil its last work.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)
