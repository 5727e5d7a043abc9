"""One warm Spark for all pipeline cases, and plain jobs in it to compare pipelines with."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipeline.running.run import UNTRACED, WATCHED, run_pipeline
from penstock.pipeline.spark.session import open_session
from penstock.pipeline.spec.read import read_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2


@cache
def session() -> SparkSession:
    """The session that all cases share: a JVM that warms up in every case would be measured."""
    spark = open_session("bench", master=f"local[{CORES}]", settings={**WATCHED, **UNTRACED})
    atexit.register(spark.stop)
    return spark


@cache
def scratch() -> Path:
    """A folder for files of all cases, removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix="bench-pipelines-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.setdefault("PENSTOCK_STATE", str(folder / "state"))
    return folder


_runs = 0


def fresh(name: str) -> Path:
    """A folder that no run has used before."""
    global _runs
    _runs += 1
    folder = scratch() / f"{name}-{_runs}"
    folder.mkdir()
    return folder


def run(text: str) -> float:
    """Run a pipeline, given as its file's text, once; the seconds that it took."""
    folder = fresh("pipeline")
    file = folder / "bench.yml"
    file.write_text(text.replace("{name}", f"bench-{folder.name}"))
    pipeline = read_pipeline(str(file), os.environ)
    begin = time.monotonic()
    run_pipeline(pipeline, session=session(), once=True)
    return time.monotonic() - begin


def run_plain(reader: Any, writer_format: str, **options: str) -> float:
    """Run a query with Spark's own source and sink and none of our choices; seconds."""
    begin = time.monotonic()
    writer = reader.writeStream.format(writer_format).options(**options)
    query = writer.option("checkpointLocation", str(fresh("plain"))).trigger(availableNow=True)
    query.start().awaitTermination()
    return time.monotonic() - begin
