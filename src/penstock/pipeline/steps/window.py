"""Aggregates over windows of event time: tumbling, sliding and sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.shapes import duration_ms, split_window
from penstock.pipeline.spec.steps import WindowStep
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import (
    accept,
    event_time,
    known_column,
    read_from,
    watermarks,
    with_watermark,
)
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import Column

WINDOW = "_window"
"""The window itself, so that a further window step can be `on: _window`; sinks leave it out."""


def apply(_context: Context, step: WindowStep, name: str, views: Views) -> Mapping[str, View]:
    """`window_start`, `window_end`, the columns of `by`, and the aggregates."""
    _, view = read_from(step, views)
    rows = view.rows
    if step.watermark:
        rows = with_watermark(rows, step.on, step.watermark, step.place)
    event_time(rows, step.on, step.place)
    for each in step.by:
        known_column(rows, each, step.place)
    if step.on not in watermarks(rows) and step.emit == "final":
        raise Problem(
            "a window is written when it is final, and without a watermark none ever is",
            f"Say how late a row may be: `watermark: 10 minutes` for {step.on!r}; or `emit: "
            "update` to write windows whenever they change.",
            step.place,
        )
    with told(step.place, columns=rows.columns):
        keys = [_window(step).alias(WINDOW), *(F.col(f"`{each}`") for each in step.by)]
        grouped = rows.groupBy(*keys).agg(*_aggregates(step))
        bounds = [F.col(f"{WINDOW}.{each}").alias(f"window_{each}") for each in ("start", "end")]
        others = [F.col(f"`{each}`") for each in (*step.by, *step.aggregate, WINDOW)]
        made = grouped.select(*bounds, *others)
    mode = "update" if step.emit == "update" else view.mode
    return accept(name, replace(view, rows=made, mode=mode), step.place)


def _aggregates(step: WindowStep) -> list[Column]:
    if not step.aggregate:
        raise Problem("no aggregate is given", "For example: hits: count(*)", step.place)
    return [F.expr(text).alias(column) for column, text in step.aggregate.items()]


def _window(step: WindowStep) -> Column:
    if step.session or step.window.strip() == "session":
        if step.window.strip() != "session" or not step.session:
            raise Problem(
                "a window is either of a fixed length or a session",
                "Write `window: session` and `session: 10 minutes`, or a length alone.",
                step.place,
            )
        return F.session_window(F.col(f"`{step.on}`"), step.session)
    length, slide = split_window(step.window)
    if not slide:
        return F.window(F.col(f"`{step.on}`"), length)
    if duration_ms(slide) > duration_ms(length):
        raise Problem(
            f"windows of {length} every {slide} would leave rows out",
            "Let the slide be at most the length.",
            step.place,
        )
    return F.window(F.col(f"`{step.on}`"), length, slide)
