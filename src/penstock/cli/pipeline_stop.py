"""`penstock pipeline stop`."""

from __future__ import annotations

import os
import signal
import time
from typing import Annotated

import typer

from penstock.cli.failure import Failure, Failures, say

LOOK_SECONDS = 0.1


def stop(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The pipelines.")],
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, max=3600, help="How long to wait for the end."
        ),
    ] = 90.0,
    now: Annotated[
        bool, typer.Option("--now", help="Stop in the middle of a batch; it is done again later.")
    ] = False,
) -> None:
    """Stop pipelines after the batch in hand, and wait until they have ended."""
    failures = Failures()
    for name in names:
        try:
            _stop(name, wait, now)
            say(f"{name} has ended")
        except Failure as failure:
            failures.add(failure)
    failures.raise_any()


def _stop(name: str, wait: float, now: bool) -> None:
    from penstock.cli.pipeline_status import look_up
    from penstock.pipeline.running.registry import Entry
    from penstock.pipeline.running.status import STOPPED

    found = look_up(name)
    entry = Entry(name)
    if not entry.locked():
        raise Failure(f"the pipeline {name!r} does not run", "`penstock pipeline list` shows them")
    try:
        os.kill(found.pid, signal.SIGKILL if now else signal.SIGTERM)
    except ProcessLookupError:
        pass  # it ended by itself just now
    deadline = time.monotonic() + wait
    while entry.locked():
        if time.monotonic() >= deadline:
            raise Failure(
                f"the pipeline {name!r} is still at its batch after {wait:g} s",
                "it ends after that; --now stops it at once",
            )
        time.sleep(LOOK_SECONDS)
    if now:
        found.state, found.message = STOPPED, "in the middle of a batch"
        entry.write(found)
