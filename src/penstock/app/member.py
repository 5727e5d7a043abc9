"""The process of one broker among several: it does not outlive its supervisor.

Standard input is a pipe that the supervisor holds and never writes to. When the supervisor ends,
however badly, the pipe closes, and the broker stops as if it had been told to.

    python -m penstock.app.member KEY=VALUE...
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    threading.Thread(target=_watch_supervisor, name="supervisor", daemon=True).start()
    from penstock.app.run import run
    from penstock.model.config.node import NodeConfig

    settings = dict(word.split("=", 1) for word in words)
    return run(lambda: NodeConfig.of(settings), formats=False)


def _watch_supervisor() -> None:
    while os.read(0, 4096):
        pass
    # Nobody reads what it prints from now on, and a closed pipe must not spoil its last work.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
