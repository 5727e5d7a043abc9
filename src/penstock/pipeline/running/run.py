"""Running one pipeline from its start to its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.pipeline.assembly import assemble
from penstock.pipeline.checkpoint import open_checkpoint
from penstock.pipeline.context import Context
from penstock.pipeline.running.needs import needed_jars, python_files
from penstock.pipeline.running.query import RunningQuery
from penstock.pipeline.spark.session import open_session
from penstock.pipeline.spec.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.2
GRACE_SECONDS = 60.0


def run_pipeline(
    pipeline: Pipeline,
    *,
    master: str = "local[*]",
    once: bool = False,
    settings: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
) -> None:
    """Run a pipeline until it ends: never, unless `once` or its trigger say so, or it is stopped.

    `once` takes what is there now and ends. `settings` are Spark's and win over the file's. A
    `session` that is given is used and left open.
    """
    checkpoint = open_checkpoint(pipeline)
    spark = session or open_session(
        pipeline.name,
        master=master,
        settings={**pipeline.spark, **(settings or {})},
        needs=needed_jars(pipeline),
        py_files=python_files(pipeline),
    )
    try:
        context = Context(spark, pipeline, checkpoint)
        running = [RunningQuery(context, query) for query in assemble(context)]
        for each in running:
            each.start(once=once)
        _watch(running)
    finally:
        if session is None:
            spark.stop()


def _watch(running: list[RunningQuery]) -> None:
    try:
        while any(each.active for each in running):
            for each in running:
                if not each.active and (failed := each.exception()):
                    raise failed
            time.sleep(LOOK_SECONDS)
        for each in running:
            if failed := each.exception():
                raise failed
    finally:
        for each in running:
            each.stop(time.monotonic() + GRACE_SECONDS)
