"""Records that a step cannot use, by the policy of `on_error`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sources.intake import BAD_RECORD, OBSERVED
from penstock.pipeline.views import ORIGIN, View

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON = "_reason"
"""The column that says what is wrong with a row; null where nothing is."""


def without_bad(context: Context, name: str, view: View, rows: DataFrame, place: Place) -> View:
    """The rows that have no reason against them; the others leave the view as the policy says."""
    policy = context.pipeline.on_error.policy
    bad = F.col(REASON).isNotNull()
    errors = view.errors
    if policy == "dlq":
        if ORIGIN not in rows.columns:
            raise Problem(
                "a record that fails here could not be written to the dead-letter topic: a step "
                f"before has left out {ORIGIN!r}, which says what the record was",
                f"Select {ORIGIN} there, or do this step before it.",
                place,
            )
        errors += (rows.where(bad).select(F.col(REASON).alias("reason"), ORIGIN),)
        good = rows.where(~bad)
    elif policy == "drop":
        counted = F.count_if(bad).alias("bad")
        good = rows.observe(f"{OBSERVED}_{name}", counted).where(~bad)
    else:
        told = F.concat(F.lit(f"{BAD_RECORD}{_where(rows)}"), *_position(rows), F.col(REASON))
        good = rows.where(F.when(~bad, True).otherwise(F.raise_error(told)))
    return replace(view, rows=good.drop(REASON), errors=errors)


def _where(rows: DataFrame) -> str:
    return " in " if ORIGIN in rows.columns else ": "


def _position(rows: DataFrame) -> list[Column]:
    """Where the record stands, if that is still known."""
    if ORIGIN not in rows.columns:
        return []
    at = F.col(ORIGIN)
    topic = F.format_string("%s-%s at offset %s", at["topic"], at["partition"], at["offset"])
    line = F.format_string("%s, line %s", at["file"], at["line"])
    where = (
        F.when(at["topic"].isNotNull(), topic)
        .when(at["line"].isNotNull(), line)
        .otherwise(F.coalesce(at["file"], at["source"]))
    )
    return [where, F.lit(": ")]
