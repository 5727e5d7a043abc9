"""Columns turned into other types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.pipeline.context import Context
from penstock.pipeline.spec.steps import CastStep
from penstock.pipeline.steps.lost import REASON, without_bad
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import accept, known_column, read_from
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import Column

SHOWN_MAX = 100
"""How many characters of a bad value a reason shows."""


def apply(context: Context, step: CastStep, name: str, views: Views) -> Mapping[str, View]:
    """The same rows, with those columns in those types; what cannot be turned is an error."""
    _, view = read_from(step, views)
    for column in step.cast:
        known_column(view.rows, column, step.place)
    with told(step.place, columns=view.rows.columns):
        casts = {
            column: F.expr(f"try_cast(`{column}` AS {kind})") for column, kind in step.cast.items()
        }
        wrong = [_wrong(column, casts[column], kind) for column, kind in step.cast.items()]
        rows = view.rows.withColumns({**casts, REASON: F.coalesce(F.lit(None), *wrong)})
    return accept(name, without_bad(context, name, view, rows, step.place), step.place)


def _wrong(column: str, cast: Column, kind: str) -> Column:
    given = F.col(f"`{column}`")
    shown = F.substring(given.cast("string"), 1, SHOWN_MAX)
    reason = F.concat(F.lit(f"{column}: '"), shown, F.lit(f"' cannot be turned into {kind}"))
    return F.when(given.isNotNull() & cast.isNull(), reason)
