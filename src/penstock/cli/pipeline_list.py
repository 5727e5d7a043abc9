"""`penstock pipeline list`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.options import Output
from penstock.cli.output import Shape, answer


def list_pipelines(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Those that have ended, too.")
    ] = False,
    output: Output = Shape.TABLE,
) -> None:
    """List the pipelines that run on this machine, and how they are."""
    from penstock.cli.pipeline_show import status_table
    from penstock.pipeline.running.registry import entries
    from penstock.pipeline.running.status import ENDED, FAILED

    found = [status for entry in entries() if (status := entry.read())]
    # What failed is shown until it runs again: nobody looks for what they do not know of.
    listed = [each for each in found if everything or each.state not in ENDED - {FAILED}]
    answer([each.document() for each in listed], [status_table(listed)], output)
