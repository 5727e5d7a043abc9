"""Pipelines for tests of running them, and a state folder that is theirs alone."""

from __future__ import annotations

import textwrap
from pathlib import Path

from penstock.pipeline.running.status import PipelineStatus, QueryStatus
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.read import read_pipeline

MINIMAL = """\
name: orders
sources:
  orders: {topic: orders}
sinks:
  lake: {parquet: lake}
"""


def pipeline_in(folder: Path, text: str = MINIMAL, name: str = "orders.yml") -> Pipeline:
    """The pipeline of a text, written to a file in this folder."""
    file = folder / name
    file.write_text(textwrap.dedent(text))
    return read_pipeline(file, {})


def a_status(name: str = "orders", **fields: object) -> PipelineStatus:
    """A status with one query, at work."""
    query = QueryStatus("clean", batch=3, rows=100, lag=7, offsets={"orders": {0: 60, 1: 40}})
    status = PipelineStatus(name, f"/tmp/{name}.yml", 4711, 1.0, state="running")
    status.queries["clean"] = query
    for field, value in fields.items():
        setattr(status, field, value)
    return status
