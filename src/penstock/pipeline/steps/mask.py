"""Columns made unreadable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import MaskStep
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import accept, known_column, read_from
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SALT = "_salt"
_KEEP_LAST = re.compile(r"keep-last-(\d+)")


def apply(context: Context, step: MaskStep, name: str, views: Views) -> Mapping[str, View]:
    """The same rows, with those columns hashed, redacted, emptied or shortened."""
    _, view = read_from(step, views)
    for column in step.mask:
        known_column(view.rows, column, step.place)
    with told(step.place, columns=view.rows.columns):
        rows = view.rows
        if step.salt:
            rows = rows.crossJoin(F.broadcast(_salt(context, step.salt)))
        salt = F.col(_SALT) if step.salt else F.lit("")
        masks = {
            column: _masked(rows, column, how, salt, step) for column, how in step.mask.items()
        }
        rows = rows.withColumns(masks).drop(_SALT)
    return accept(name, view.with_rows(rows), step.place)


def _salt(context: Context, salt: str) -> DataFrame:
    """The salt, as a table of one row: a literal would show in Spark's plans, and in its UI."""
    import pyarrow  # type: ignore[import-untyped]

    return context.spark.createDataFrame(pyarrow.table({_SALT: [salt]}))


def _masked(rows: DataFrame, column: str, how: str, salt: Column, step: MaskStep) -> Column:
    given = F.col(f"`{column}`")
    text = given.cast("string")
    if how == "hash":
        return F.sha2(F.concat(salt, text), 256)
    if how == "redact":
        return F.when(given.isNotNull(), "***")
    if how == "null":
        return F.lit(None).cast(rows.schema[column].dataType)
    if kept := _KEEP_LAST.fullmatch(how):
        length = int(kept[1])
        # What is no longer than its unmasked end would not be masked at all.
        hidden = F.when(F.length(text) > length, F.length(text) - length).otherwise(F.length(text))
        return F.concat(F.repeat(F.lit("*"), hidden), F.substr(text, hidden + 1))
    raise Problem(
        f"{column!r} cannot be masked by {how!r}",
        "Known: hash, redact, null, keep-last-N (as in keep-last-4).",
        step.place,
    )
