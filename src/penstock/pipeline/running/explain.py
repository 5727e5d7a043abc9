"""Spark's own plan of a pipeline, without running it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from penstock.pipeline.assembly import build_views
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.context import Context
from penstock.pipeline.running.faults import problem_of
from penstock.pipeline.spark.session import open_session
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.needs import needs_of, python_files


def spark_plans(pipeline: Pipeline) -> dict[str, str]:
    """How Spark would compute each view that is written."""
    with TemporaryDirectory(prefix="penstock-plan-") as folder:
        spark = open_session(
            pipeline.name,
            master="local[1]",
            settings=dict(pipeline.spark),
            needs=needs_of(pipeline),
            py_files=python_files(pipeline),
            log=Path(folder) / "spark.log",
        )
        try:
            # A checkpoint that is never opened: nothing runs, and nothing is left behind.
            context = Context(spark, pipeline, Checkpoint(f"{folder}/checkpoint", "plan"))
            views = build_views(context)
            wanted = [sink.source or list(views)[-1] for sink in pipeline.sinks.values()]
            return {name: explained(views[name].rows) for name in dict.fromkeys(wanted)}
        except Exception as fault:
            raise problem_of(fault, pipeline) from fault
        finally:
            spark.stop()


def explained(rows: Any) -> str:
    """Spark's plan of these rows."""
    utilities = rows._sc._jvm.PythonSQLUtils
    return str(utilities.explainString(rows._jdf.queryExecution(), "formatted")).strip()
