"""Nested fields as columns, elements of arrays as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import FlattenStep
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import accept, known_column, read_from
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

ALL = "*"


def apply(_context: Context, step: FlattenStep, name: str, views: Views) -> Mapping[str, View]:
    """Arrays become rows first; then nested columns become flat ones, at any depth."""
    _, view = read_from(step, views)
    with told(step.place, columns=view.rows.columns):
        rows = _exploded(view.rows, step)
        opened = _to_open(rows, step)
        columns = [
            pair for field in rows.schema for pair in _columns(field.name, field.dataType, opened)
        ]
        flat = [(path, step.separator.join(path)) for path in columns]
        _once([name for _, name in flat], step)
        made = rows.select(*(_column(path).alias(column) for path, column in flat))
    return accept(name, view.with_rows(made), step.place)


def _exploded(rows: DataFrame, step: FlattenStep) -> DataFrame:
    """A row per element; a row whose array is empty stays, with null, rather than vanish."""
    for column in step.explode:
        known_column(rows, column, step.place)
        if not isinstance(rows.schema[column].dataType, ArrayType):
            kind = rows.schema[column].dataType.simpleString()
            raise Problem(
                f"{column!r} is no array but of the type {kind}", "Only arrays explode.", step.place
            )
        rows = rows.withColumn(column, F.explode_outer(F.col(f"`{column}`")))
    return rows


def _to_open(rows: DataFrame, step: FlattenStep) -> set[str]:
    if tuple(step.flatten) == (ALL,):
        return {
            field.name
            for field in rows.schema
            if isinstance(field.dataType, StructType) and not field.name.startswith("_")
        }
    for column in step.flatten:
        known_column(rows, column, step.place)
        kind = rows.schema[column].dataType
        if not isinstance(kind, StructType):
            raise Problem(
                f"{column!r} has no fields to open: it is of the type {kind.simpleString()}",
                _advice(column, kind),
                step.place,
            )
    return set(step.flatten)


def _advice(column: str, kind: DataType) -> str:
    if isinstance(kind, ArrayType):
        return f"Make each element a row first: explode: [{column}]"
    if isinstance(kind, MapType):
        return "The keys of a map differ from row to row: select those that you want."
    return "Leave it out."


def _columns(name: str, kind: DataType, opened: set[str]) -> Iterator[tuple[str, ...]]:
    if name in opened:
        yield from _leaves((name,), kind)
    else:
        yield (name,)


def _leaves(path: tuple[str, ...], kind: DataType) -> Iterator[tuple[str, ...]]:
    if not isinstance(kind, StructType):
        yield path
        return
    for field in kind:
        yield from _leaves((*path, field.name), field.dataType)


def _column(path: tuple[str, ...]) -> Column:
    return F.col(".".join(f"`{part}`" for part in path))


def _once(names: list[str], step: FlattenStep) -> None:
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise Problem(
            f"two columns would be called {twice[0]!r}",
            "Choose another separator, or rename one of them before.",
            step.place,
        )
