"""`penstock pipeline status`."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.failure import Failure
from penstock.cli.options import Output
from penstock.cli.output import Shape, Table, answer

if TYPE_CHECKING:
    from penstock.pipeline.running.status import PipelineStatus

WATCH_SECONDS = 1.0


def status(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The pipeline; all that run, if not given."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look every second, until Ctrl-C.")
    ] = False,
    output: Output = Shape.TABLE,
) -> None:
    """Show what a pipeline is doing: rows, speed, lag, batches, state, bad records.

    With --watch a terminal shows it live; elsewhere each look is printed, and with -o json it is
    one line.
    """
    if name is None:
        _all(watch, output)
    elif watch:
        _watch(name, output)
    else:
        found = look_up(name)
        answer(found.document(), _tables(found), output)


def look_up(name: str) -> PipelineStatus:
    """The status of this pipeline; a failure if it never ran here."""
    from penstock.pipeline.running.registry import Entry, entries

    found = Entry(name).read()
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(name, [entry.name for entry in entries()], 1)
        raise Failure(
            f"no pipeline {name!r} runs here, or ever did",
            f"did you mean {near[0]}?" if near else "`penstock pipeline list --all` shows them all",
        )
    return found


def _all(watch: bool, output: Shape) -> None:
    from penstock.cli.pipeline_list import list_pipelines

    try:
        while True:
            list_pipelines(False, output)
            if not watch:
                return
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return


def _watch(name: str, output: Shape) -> None:
    from penstock.cli.pipeline_show import LiveTable, sentence
    from penstock.pipeline.running.status import ENDED

    live = LiveTable() if output is Shape.TABLE and sys.stderr.isatty() else None
    try:
        while True:
            found = look_up(name)
            if live is not None:
                live([found])
            elif output is Shape.JSON:
                print(json.dumps(found.document()), flush=True)
            else:
                print(sentence(found), flush=True)
            if found.state in ENDED:
                return
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return
    finally:
        if live is not None:
            live.close()


def _tables(found: PipelineStatus) -> list[Table]:
    from penstock.cli.pipeline_show import query_table
    from penstock.pipeline.running.registry import Entry

    facts: list[tuple[str, object]] = [
        ("pipeline", found.pipeline),
        ("state", found.state),
        ("message", found.message),
        ("file", found.file),
        ("process", found.pid),
        ("started", _time(found.started)),
        ("updated", _time(found.updated)),
        ("restarts", found.restarts),
        ("log", str(Entry(found.pipeline).log)),
    ]
    tables = [Table(("", ""), [fact for fact in facts if fact[1] != ""])]
    if found.queries:
        tables.append(query_table(found))
    return tables


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(sep=" ", timespec="seconds")
