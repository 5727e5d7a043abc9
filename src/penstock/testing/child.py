"""The process behind `Broker`: a node that does not outlive whoever started it.

Standard input is a pipe that the owner holds and never writes to. When the owner ends, however
badly, the pipe closes and the node stops. (The kernel's parent-death signal would do for an owner
with one thread only: it is sent when the thread that started the child ends.)

    python -m penstock.testing.child HOST PORT DATA KEEP [KEY=VALUE...]

KEEP is `keep`, or `drop` for data that nobody wants once the owner is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    host, port, data, keep, *settings = words
    orphaned = threading.Event()
    threading.Thread(target=_watch_owner, args=(orphaned,), name="owner", daemon=True).start()
    from penstock.app import run_up

    try:
        return run_up(data, host, int(port), dict(each.split("=", 1) for each in settings))
    finally:
        if orphaned.is_set() and keep == "drop":
            import shutil

            shutil.rmtree(data, ignore_errors=True)


def _watch_owner(orphaned: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    orphaned.set()
    # Nobody reads what it prints from now on, and a closed pipe must not spoil its last work.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
