"""`penstock pipeline run`."""

from __future__ import annotations

from typing import Annotated

import typer


def run(
    file: Annotated[
        str, typer.Argument(metavar="FILE|FOLDER", help="A pipeline file, or a folder of them.")
    ],
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Where Spark runs.")
    ] = "local[*]",
    once: Annotated[bool, typer.Option("--once", help="Take what is there now, and end.")] = False,
) -> None:
    """Run a pipeline, or every pipeline of a folder."""
    from penstock.pipeline.running.run import run_pipeline
    from penstock.pipeline.spec.read import read_pipeline

    run_pipeline(read_pipeline(file), master=master, once=once)
