"""Rows to values of records."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def payload_columns(rows: DataFrame) -> list[str]:
    """The columns that are data: all but those that describe the record."""
    return [name for name in rows.columns if not name.startswith("_")]


def encode(rows: DataFrame, form: Format, context: Context) -> Column:
    """The value of each row's record, as bytes.

    A row whose columns are all null becomes a null value, a tombstone: what a source makes of a
    tombstone is turned back into one.
    """
    from pyspark.sql import functions as f

    names = payload_columns(rows)
    if not names:
        raise Problem(
            "there is nothing to write: the view has no columns but those that describe a record",
            "Select one of them under a name of its own, as in `_key AS id`.",
            context.pipeline.place,
        )
    columns = [f.col(f"`{name}`") for name in names]
    if form.format == "string":
        return _single(names, form, context).cast("string").cast("binary")
    if form.format == "binary":
        return _single(names, form, context).cast("binary")
    packed = f.struct(*columns)
    if form.format == "json":
        made = f.to_json(packed)
    elif form.format == "csv":
        made = f.to_csv(packed, {"sep": form.delimiter})
    else:
        raise Problem(f"a value cannot be written as {form.format} yet", "", context.pipeline.place)
    present = reduce(or_, (each.isNotNull() for each in columns))
    return f.when(present, made.cast("binary"))


def _single(names: list[str], form: Format, context: Context) -> Column:
    from pyspark.sql import functions as f

    if "value" in names:
        return f.col("value")
    if len(names) == 1:
        return f.col(f"`{names[0]}`")
    raise Problem(
        f"a {form.format} value is made of one column, and there are {len(names)}: "
        + ", ".join(names),
        "Call the one that is meant `value`, or write the row as json.",
        context.pipeline.place,
    )
