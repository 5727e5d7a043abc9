"""`penstock pipeline compact`: few large files in place of many small ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli.durations import duration_ms
from penstock.cli.failure import USAGE, Failure, say
from penstock.cli.options import DryRun, Output
from penstock.cli.output import Shape, Table, answer

if TYPE_CHECKING:
    from penstock.pipeline.compaction import Gain
    from penstock.pipeline.spec.model import Pipeline
    from penstock.pipeline.spec.sinks import IcebergSink, ParquetSink


def compact(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The pipeline file.")],
    sink: Annotated[
        str | None,
        typer.Option(
            "--sink", metavar="NAME", show_default="all that can be", help="Only this sink."
        ),
    ] = None,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Only files of Parquet that have not changed for so long.",
        ),
    ] = "1h",
    expire: Annotated[
        str,
        typer.Option(
            "--expire", metavar="TIME", help="Forget snapshots of Iceberg older than this."
        ),
    ] = "5d",
    target: Annotated[
        str, typer.Option("--target", metavar="SIZE", help="About how large files should become.")
    ] = "128m",
    dry_run: DryRun = False,
    output: Output = Shape.TABLE,
) -> None:
    """Make few large files out of a lake's many small ones.

    The pipeline may run meanwhile, and so may readers: docs/how-to/pipeline-lake.md says what they
    see. Interrupted, it has either replaced a group of files or not begun with it.
    """
    from penstock.pipeline.spec.read import read_pipeline
    from penstock.pipeline.spec.shapes import Misshapen, size_bytes

    try:
        target_bytes = size_bytes(target)
    except Misshapen as wrong:
        raise Failure(f"--target {target!r} is not {wrong.expected}", wrong.advice, USAGE) from None
    wish = _Wish(
        target_bytes,
        duration_ms(older_than, "--older-than") / 1000,
        duration_ms(expire, "--expire") / 1000,
        dry_run,
    )
    pipeline = read_pipeline(file, os.environ)
    gains = {
        name: _compact(pipeline, name, spec, wish) for name, spec in _chosen(pipeline, sink).items()
    }
    _show(gains, output)


class _Wish(NamedTuple):
    target_bytes: int
    older_than_seconds: float
    expire_seconds: float
    dry_run: bool


def _chosen(pipeline: Pipeline, sink: str | None) -> dict[str, ParquetSink | IcebergSink]:
    from penstock.pipeline.spec.sinks import IcebergSink, ParquetSink

    lakes = {
        name: spec
        for name, spec in pipeline.sinks.items()
        if isinstance(spec, (ParquetSink, IcebergSink))
    }
    if sink is None and lakes:
        return lakes
    if sink in lakes:
        return {sink: lakes[sink]}
    known = ", ".join(lakes) or "none"
    asked = "no sink" if sink is None else f"the sink {sink!r} is none that"
    raise Failure(f"{asked} writes Parquet or Iceberg", f"such sinks here: {known}", USAGE)


def _compact(pipeline: Pipeline, name: str, spec: ParquetSink | IcebergSink, wish: _Wish) -> Gain:
    from penstock.pipeline.spec.sinks import ParquetSink

    if isinstance(spec, ParquetSink):
        return _compact_parquet(pipeline, name, spec, wish)
    from penstock.pipeline.compaction_iceberg import compact_sink

    say(f"compacting {spec.iceberg}")
    return compact_sink(
        pipeline,
        name,
        spec,
        target=wish.target_bytes,
        expire=wish.expire_seconds,
        dry_run=wish.dry_run,
    )


def _compact_parquet(pipeline: Pipeline, name: str, spec: ParquetSink, wish: _Wish) -> Gain:
    from penstock.cli.progress import Progress
    from penstock.pipeline.compaction import compact_lake, plan_lake
    from penstock.pipeline.sinks.lake_path import lake_path

    lake = lake_path(pipeline, spec)
    groups = plan_lake(lake, target=wish.target_bytes, older_than=wish.older_than_seconds)
    with Progress(name, sum(group.bytes for group in groups), size=True) as progress:
        return compact_lake(lake, groups, dry_run=wish.dry_run, progress=progress.advance)


def _show(gains: dict[str, Gain], output: Shape) -> None:
    from penstock.pipeline.sinks.lake_sizes import size_text

    headings = ("sink", "files before", "files after", "size before", "size after")
    rows = [
        (
            name,
            gain.files_before,
            gain.files_after,
            size_text(gain.bytes_before),
            size_text(gain.bytes_after),
        )
        for name, gain in gains.items()
    ]
    document = {name: gain.document() for name, gain in gains.items()}
    answer(document, [Table(headings, rows)], output)
