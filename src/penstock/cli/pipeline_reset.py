"""`penstock pipeline reset`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from penstock.cli.confirm import confirm
from penstock.cli.failure import say


def reset(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The pipeline file.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    keep_group: Annotated[
        bool,
        typer.Option("--keep-group", help="Leave the group's offsets; no broker is needed then."),
    ] = False,
) -> None:
    """Forget how far a pipeline has come: its checkpoint, its state, its group's offsets.

    The next run begins where the sources say (`from`), and writes again what was written before.
    What that means for each sink is told first.
    """
    from penstock.pipeline.checkpoint import checkpoint_root
    from penstock.pipeline.running.group import forget_group, reads_topics
    from penstock.pipeline.running.reset import consequences, forget_checkpoint
    from penstock.pipeline.spec.read import read_pipeline

    pipeline = read_pipeline(file, os.environ)
    for line in consequences(pipeline):
        say(line)
    if not yes:
        confirm(checkpoint_root(pipeline), "and begin anew")
    if reads_topics(pipeline) and not keep_group:
        forget_group(pipeline)
    if forget_checkpoint(pipeline):
        say(f"{pipeline.name} will begin anew")
    else:
        say(f"{pipeline.name} has no checkpoint: nothing was there to forget")
