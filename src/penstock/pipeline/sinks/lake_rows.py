"""Which rows and columns of a batch go into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.pipeline.problem import Place, Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

POSITION = "_offset"
"""Where a record stood in its partition: of two with one key, the later one is the newer."""


def shown(columns: Sequence[str]) -> list[str]:
    """The columns that are written: those that describe the record are left out."""
    return [name for name in columns if not name.startswith("_")]


def quoted(name: str) -> str:
    """A column's name as SQL and Spark's expressions want it."""
    return "`" + name.replace("`", "``") + "`"


def check_columns(rows: DataFrame, wanted: Sequence[str], key: str, place: Place) -> None:
    """Refuse a key of the file that names columns which are not there."""
    missing = [name for name in wanted if name not in rows.columns]
    if missing:
        raise Problem(
            f"{key} names {_listed(missing)}, which the rows do not have",
            f"They have {_listed(rows.columns)}.",
            place,
        )


def check_types(schema: StructType, place: Place) -> None:
    """Refuse columns that no table can hold."""
    untyped = [each.name for each in schema if each.dataType.typeName() == "void"]
    if untyped:
        raise Problem(
            f"nothing tells the type of {_listed(untyped)}",
            "Give a NULL its type, as in `CAST(NULL AS string) AS note`.",
            place,
        )
    twice = {
        each.name
        for each in schema
        if [n.lower() for n in schema.names].count(each.name.lower()) > 1
    }
    if twice:
        raise Problem(
            f"{_listed(sorted(twice))} differ only in upper and lower case",
            "Rename one of them: most readers of tables cannot tell them apart.",
            place,
        )


def check_expressions(rows: DataFrame, expressions: Sequence[str], place: Place) -> None:
    """Refuse SQL expressions that Spark cannot make of these rows; empty ones are fine."""
    from pyspark.sql import functions as F

    from penstock.pipeline.steps.refusal import told

    with told(place, columns=rows.columns):
        rows.select(*(F.expr(each) for each in expressions if each))


def newest(rows: DataFrame, key: Sequence[str], order_by: str) -> DataFrame:
    """One row of each key: the newest by `order_by`, else by the record's position."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = order_by or (POSITION if POSITION in rows.columns else "")
    if not order:
        return rows.dropDuplicates(list(key))
    window = Window.partitionBy(*(quoted(name) for name in key)).orderBy(F.expr(order).desc())
    ranked = rows.withColumn("_rank", F.row_number().over(window))
    return ranked.where("_rank = 1").drop("_rank")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
