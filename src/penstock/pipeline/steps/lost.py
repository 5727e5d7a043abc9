"""Records that a step cannot use, by the policy of `on_error`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sources.intake import OBSERVED
from penstock.pipeline.views import ORIGIN, View

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON = "_reason"
"""The column that says what is wrong with a row; null where nothing is."""


def without_bad(context: Context, name: str, view: View, rows: DataFrame, place: Place) -> View:
    """The rows that have no reason against them; the others leave the view as the policy says."""
    policy = context.pipeline.on_error.policy
    is_bad = F.col(REASON).isNotNull()
    errors = view.errors
    if policy == "dlq":
        _need_origin(rows, place)
        bad = rows.where(_here(is_bad))
        errors += (bad.select(F.col(REASON).alias("reason"), ORIGIN),)
        good = rows.where(_here(~is_bad))
    elif policy == "drop":
        counted = rows.observe(f"{OBSERVED}_{name}", F.count_if(is_bad).alias("bad"))
        good = counted.where(_here(~is_bad))
    else:
        complaint = F.raise_error(_complaint(rows))
        good = rows.where(F.when(_here(~is_bad), True).otherwise(complaint))
    return replace(view, rows=good.drop(REASON), errors=errors)


def _here(condition: Column) -> Column:
    """The condition, evaluated where it stands.

    Pushed down to the source, all that lies between would be computed twice, for the condition and
    for the columns; what is not deterministic is not pushed.
    """
    return F.when(F.rand(0) >= 0, condition)


def _need_origin(rows: DataFrame, place: Place) -> None:
    if ORIGIN not in rows.columns:
        raise Problem(
            "a record that fails here could not be written to the dead-letter topic: a step "
            f"before has left out {ORIGIN!r}, which says what the record was",
            f"Select {ORIGIN} there, or do this step before it.",
            place,
        )


def _complaint(rows: DataFrame) -> Column:
    """What stops the pipeline, and where the record stands, if that is still known."""
    if ORIGIN not in rows.columns:
        return F.concat(F.lit("a record cannot be used: "), F.col(REASON))
    at = F.col(ORIGIN)
    topic = F.format_string("%s-%s at offset %s", at["topic"], at["partition"], at["offset"])
    line = F.format_string("%s, line %s", at["file"], at["line"])
    where = (
        F.when(at["topic"].isNotNull(), topic)
        .when(at["line"].isNotNull(), line)
        .otherwise(F.coalesce(at["file"], at["source"]))
    )
    return F.concat(F.lit("a record cannot be used, "), where, F.lit(": "), F.col(REASON))
