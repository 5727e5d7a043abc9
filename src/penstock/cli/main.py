"""Where the `penstock` command begins.

Two roads lead from here. What must be quick, the version, help and starting a node, is answered
before Typer is imported. All the rest goes through `root`, whose commands are imported when chosen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from penstock.cli.failure import INTERRUPTED, PIPE_CLOSED, Failure
from penstock.cli.launch import launch, read_launch


def main() -> NoReturn:
    """Run the command line of this process, and end with its status."""
    status = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = _leave_the_pipe()
    sys.exit(status)


def run(words: Sequence[str]) -> int:
    """Run one command line; the exit status, as `failure.MEANINGS` tells it."""
    try:
        return _dispatch(words)
    except Failure as failure:
        failure.show()
        return failure.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _leave_the_pipe()


def _dispatch(words: Sequence[str]) -> int:
    if list(words) in (["--version"], ["-V"]):
        from penstock.version import KAFKA_RELEASE, VERSION

        print(f"penstock {VERSION} (Kafka {KAFKA_RELEASE} protocol)")
        return 0
    if words and words[-1] in ("-h", "--help"):
        from penstock.cli.generated.help_pages import PAGES

        page = PAGES.get(" ".join(words[:-1]))
        if page is not None:
            print(page, end="")
            return 0
    wanted = read_launch(words)
    if wanted is not None:
        return launch(wanted)
    from penstock.cli.root import run_command

    return run_command(words)


def _leave_the_pipe() -> int:
    """Give what is still buffered to nobody, or the interpreter complains when it flushes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return PIPE_CLOSED
