"""State of one's own in Python: a StatefulProcessor, through transformWithState."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import StatefulStep
from penstock.pipeline.steps.loading import load, user_code
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import accept, known_column, read_from, watermarks
from penstock.pipeline.views import View, Views

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_TIME_MODE = {"none": "None", "processing_time": "ProcessingTime", "event_time": "EventTime"}


def apply(context: Context, step: StatefulStep, name: str, views: Views) -> Mapping[str, View]:
    """What the processor makes of each key's rows, and of its timers."""
    _, view = read_from(step, views)
    if not step.by:
        raise Problem("state is kept by nothing", "Name at least one column in `by`.", step.place)
    for column in step.by:
        known_column(view.rows, column, step.place)
    if step.time_mode == "event_time" and not watermarks(view.rows):
        raise Problem(
            "timers of event time need a watermark, and no column has one",
            "Set `watermark: at 10 minutes` at the source, or choose another `time_mode`.",
            step.place,
        )
    processor = _processor(context, step)
    # Spark keeps such state in RocksDB only.
    context.spark.conf.set(PROVIDER, ROCKSDB)
    with told(step.place, columns=view.rows.columns):
        grouped = view.rows.groupBy(*(F.col(f"`{each}`") for each in step.by))
        rows = grouped.transformWithState(
            processor, step.schema, step.output.capitalize(), _TIME_MODE[step.time_mode]
        )
        rows.schema  # noqa: B018 - a schema that cannot be understood is refused here
    mode = "update" if step.output == "update" else view.mode
    return accept(name, replace(view, rows=rows, mode=mode), step.place)


def _processor(context: Context, step: StatefulStep) -> StatefulProcessor:
    given = load(context, step.stateful, step.place)
    if not (isinstance(given, type) and issubclass(given, StatefulProcessor)):
        raise Problem(
            f"{step.stateful} is no StatefulProcessor",
            "Name a class that extends pyspark.sql.streaming.StatefulProcessor.",
            step.place,
        )
    with user_code(context.path(step.stateful.rpartition(":")[0]), step.place):
        return given()
