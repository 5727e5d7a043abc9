"""One row per key, within the watermark."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.shapes import split_watermark
from penstock.pipeline.spec.steps import DeduplicateStep
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import (
    accept,
    known_column,
    read_from,
    watermarks,
    with_watermark,
)
from penstock.pipeline.views import View, Views


def apply(_context: Context, step: DeduplicateStep, name: str, views: Views) -> Mapping[str, View]:
    """The first row of each key; the key is forgotten when the watermark has passed it."""
    _, view = read_from(step, views)
    rows = view.rows
    if not step.deduplicate:
        raise Problem(
            "no column says which rows are the same", "Name at least one column.", step.place
        )
    for each in step.deduplicate:
        known_column(rows, each, step.place)
    if step.watermark:
        rows = with_watermark(rows, *split_watermark(step.watermark), step.place)
    if not watermarks(rows):
        raise Problem(
            "without a watermark every key would have to be remembered for ever",
            "Say which column is the event time and how late a row may be: "
            "`watermark: at 10 minutes`, here or at the source.",
            step.place,
        )
    with told(step.place, columns=rows.columns):
        kept = rows.dropDuplicatesWithinWatermark(list(step.deduplicate))
    return accept(name, view.with_rows(kept), step.place)
