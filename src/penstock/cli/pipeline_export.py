"""`penstock pipeline export`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from penstock.cli.failure import USAGE, Failure, say


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The pipeline file.")],
    sdp: Annotated[
        str,
        typer.Option(
            "--sdp", metavar="DIR", help="Write a project of Spark Declarative Pipelines there."
        ),
    ],
) -> None:
    """Write a pipeline as a project of Spark Declarative Pipelines, and say what that cannot do.

    `spark-pipelines run` in the folder runs it. Secrets are not written: the project takes them
    from the environment.
    """
    from penstock.pipeline.running.declarative import project_of
    from penstock.pipeline.spec.read import read_pipeline

    pipeline = read_pipeline(file, os.environ)
    if os.path.isdir(sdp) and os.listdir(sdp):
        raise Failure(f"{sdp} is not empty", "choose a folder that is not there yet", USAGE)
    project = project_of(pipeline, "file://" + os.path.abspath(os.path.join(sdp, "storage")))
    for name, text in project.files.items():
        path = os.path.join(sdp, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as written:
                written.write(text)
        except OSError as refusal:
            raise Failure(f"cannot write {path}: {refusal.strerror}") from None
    for note in project.notes:
        say(f"not carried over: {note}")
    say(f"{sdp} is written; run it with: cd {sdp} && spark-pipelines run")
