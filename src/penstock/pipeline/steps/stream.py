"""What streams need beyond what tables do: watermarks, output modes, and asking Spark in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.steps.refusal import nearest, shortened
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipeline.spec.model import Step

_WATERMARK = "spark.watermarkDelayMs"
"""How Spark marks the column of event time, and keeps the mark where the column is renamed."""


def read_from(step: Step, views: Views) -> tuple[str, View]:
    """The view that a step reads, and its name."""
    name = step.source or list(views)[-1]
    return name, views.find(name, step.place)


def known_column(rows: DataFrame, name: str, place: Place) -> None:
    """Refuse a name that is no column of `rows`."""
    if name not in rows.columns:
        raise Problem(f"there is no column {name!r} here", nearest(name, rows.columns), place)


def watermarks(rows: DataFrame) -> list[str]:
    """The columns that carry a watermark."""
    return [field.name for field in rows.schema if _WATERMARK in (field.metadata or {})]


def with_watermark(rows: DataFrame, column: str, lateness: str, place: Place) -> DataFrame:
    """Rows of which `column` is the event time, and none is awaited longer than `lateness`."""
    event_time(rows, column, place)
    if column in watermarks(rows):
        raise Problem(
            f"{column!r} has a watermark already",
            "Set it once: at the source, or at the first step that needs it.",
            place,
        )
    return rows.withWatermark(column, lateness)


def event_time(rows: DataFrame, column: str, place: Place) -> None:
    """Refuse a column that is not a time."""
    known_column(rows, column, place)
    kind = rows.schema[column].dataType.simpleString()
    if kind not in ("timestamp", "timestamp_ntz") and not _is_window(kind):
        raise Problem(
            f"{column!r} is of the type {kind}, and event time has to be a timestamp",
            f"Cast it in a step before: cast: {{{column}: timestamp}}",
            place,
        )


def accept(name: str, view: View, place: Place) -> dict[str, View]:
    """A step's result, once Spark has agreed to run it as a stream.

    Spark asks the same when a query starts, where nobody knows the line of the file any more.
    """
    if view.rows.isStreaming:
        try:
            check(view.rows, view.mode)
        except _refusals() as refused:
            raise _in_our_words(refused, place) from None
    return {name: view}


def check(rows: DataFrame, mode: str) -> None:
    """Raise what Spark would raise if these rows were written in this mode."""
    jvm: Any = rows.sparkSession.sparkContext._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
        rows._jdf.queryExecution().analyzed(),
        modes.Update() if mode == "update" else modes.Append(),
    )


def _refusals() -> type[Exception]:
    from pyspark.errors import PySparkException

    return PySparkException


_WORDS: tuple[tuple[str, str, str], ...] = (
    (
        "aggregations without watermark",
        "groups have to be final before they are written, and without a watermark they never are",
        (
            "Set a watermark at the source and group by a window of that column, or write `emit: "
            "update` to write groups whenever they change."
        ),
    ),
    (
        "correctness",
        "a stateful step follows one that writes its rows again when they change",
        "Let the first one emit `final`, or put the second one into a pipeline of its own.",
    ),
    ("Sorting is not supported", "a stream has no end, so it cannot be sorted", "Sort later."),
    (
        "Limits are not supported",
        "rows that are written again when they change cannot be limited",
        "Let the aggregate emit `final`, or leave the limit out.",
    ),
    (
        "NON_TIME_WINDOW",
        "a stream has no end, so rows cannot be numbered or compared with OVER (...)",
        "Use a window step, deduplicate, or a stateful step.",
    ),
    ("Redefining watermark", "the watermark is set twice", "Set it once, at the source."),
    (
        "Join between two streaming",
        "rows that are written again when they change cannot be joined with a stream",
        "Let the aggregate emit `final`.",
    ),
    (
        "Stream-stream",
        "rows of both streams would have to be kept for ever",
        (
            "Give both sources a watermark, and bound the time between the two sides in `on`: "
            "payments.at BETWEEN orders.at AND orders.at + INTERVAL 1 HOUR."
        ),
    ),
)
"""What is in Spark's message, what we say instead, and what to do."""


def _in_our_words(refused: Exception, place: Place) -> Problem:
    message = str(refused)
    for sign, what, advice in _WORDS:
        if sign.lower() in message.lower():
            return Problem(what, advice, place)
    return Problem(f"Spark cannot run this on a stream: {shortened(message)}", "", place)


def _is_window(kind: str) -> bool:
    return kind.startswith("struct<start:timestamp,end:timestamp")
