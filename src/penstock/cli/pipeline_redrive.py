"""`penstock pipeline redrive`: send dead letters through again, after what was wrong is mended."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.failure import USAGE, Failure, say
from penstock.cli.options import DryRun, Output
from penstock.cli.output import Shape, Table, answer

if TYPE_CHECKING:
    from penstock.pipeline.redrive import Outcome
    from penstock.pipeline.spec.model import Pipeline

KEEP_SECONDS_MAX = 30.0


def redrive(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The pipeline file.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TOPIC",
            show_default="the topic that each came from",
            help="Where all of them go; letters that came from files need it.",
        ),
    ] = "",
    filter: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="REGEX",
            show_default="all",
            help="Only letters with a reason in which this is found.",
        ),
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="At most so many; 0 is all.")
    ] = 0,
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
) -> None:
    """Send a pipeline's dead letters through again, each of them once.

    Their bytes go back to the topic that they came from, without the headers that told of their
    death. What was sent is remembered in the group `penstock.pipeline.NAME:redrive`: a letter that
    was left out waits for another time, and one that was sent is not sent again.
    """
    try:
        re.compile(filter)
    except re.error as wrong:
        raise Failure(
            f"--filter {filter!r} is not a regular expression: {wrong}",
            "escape what is meant literally with \\",
            USAGE,
        ) from None
    from penstock.pipeline.redrive import Wish, redrive
    from penstock.pipeline.spec.read import read_pipeline

    pipeline = read_pipeline(file, os.environ)
    outcome = redrive(pipeline, Wish(to, filter, limit), dry_run=dry_run, told=_told)
    if not dry_run:
        _keep(pipeline, outcome.topic)
    answer(_document(outcome, dry_run), _tables(outcome, dry_run), output)


def _told(outcome: Outcome) -> None:
    sent = outcome.sent.total()
    if sent and sent % 10_000 == 0:
        say(f"{sent:,} letters sent")


def _keep(pipeline: Pipeline, topic: str) -> None:
    """Have what was sent remembered for as long as letters may lie; a word where it is not."""
    from penstock.cli import dlq_memory
    from penstock.cli.secure_properties import TAKEN
    from penstock.cli.wire_cluster import Cluster
    from penstock.pipeline.running.clients import translated
    from penstock.pipeline.sinks.transactional_markers import group_of

    known = translated(pipeline.kafka)
    words = [f"{name}={value}" for name, value in known.items() if name in TAKEN]
    try:
        with Cluster(pipeline.bootstrap, words, KEEP_SECONDS_MAX) as cluster:
            dlq_memory.keep(cluster, topic, group_of(pipeline.name, "redrive"))
    except Failure as failure:
        # The letters are out: that they may go out again one day is no failure of this command.
        say(
            f"what was sent is remembered for as long as offsets are kept there, and no longer: "
            f"{failure.problem}"
        )


def _document(outcome: Outcome, dry_run: bool) -> dict[str, object]:
    return {
        "topic": outcome.topic,
        "dry_run": dry_run,
        "sent": dict(outcome.sent),
        "left": dict(outcome.left),
    }


def _tables(outcome: Outcome, dry_run: bool) -> list[Table]:
    verb = "WOULD BE SENT" if dry_run else "SENT"
    sent = list(outcome.sent.items()) or [("", 0)]
    tables = [Table(("TO", verb), sent, f"Dead letters in {outcome.topic}")]
    if outcome.left:
        tables.append(Table(("REASON", "LEFT"), outcome.left.most_common(20), "Left for later"))
    return tables
