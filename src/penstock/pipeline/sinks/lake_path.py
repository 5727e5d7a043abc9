"""Where the files of a lake are."""

from __future__ import annotations

import os

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.sinks import ParquetSink


def absolute(pipeline: Pipeline, given: str) -> str:
    """A path of the pipeline file: relative ones begin at the file's folder."""
    if "://" in given or os.path.isabs(given):
        return given
    return os.path.join(os.path.dirname(os.path.abspath(pipeline.place.file)), given)


def lake_path(pipeline: Pipeline, spec: ParquetSink) -> str:
    """The lake's folder; a place that has no rename is refused."""
    given = absolute(pipeline, spec.parquet).removeprefix("file://")
    scheme, found, _ = given.partition("://")
    if found:
        raise Problem(
            f"files cannot be renamed into place on {scheme}://, so not be written exactly once",
            "Write an Iceberg table there (iceberg: instead of parquet:), or files to a folder.",
            spec.place,
        )
    return os.path.normpath(given)
