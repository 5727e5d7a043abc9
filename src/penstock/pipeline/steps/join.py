"""Two streams, or a stream and a table, joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import JoinStep
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import accept, check, read_from, watermarks
from penstock.pipeline.steps.tables import open_table
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BOUND = (
    "Bound the time between the two sides in `on`, as in: {right}.at BETWEEN {left}.at AND "
    "{left}.at + INTERVAL 1 HOUR."
)


def apply(context: Context, step: JoinStep, name: str, views: Views) -> Mapping[str, View]:
    """The columns of both sides.

    A column that both have keeps its name on the left and gets the right side's before it there
    (`customers_id`). Of the columns that describe a record the left side's stay.
    """
    left_name, left = read_from(step, views)
    if step.join == left_name:
        raise Problem(
            f"{step.join!r} is joined with itself, and its columns could not be told apart",
            "Give it a second name before: {sql: SELECT * FROM NAME, as: OTHER}",
            step.place,
        )
    if step.table:
        right = View(open_table(context, step))
        _check_table(step)
    else:
        right = views.find(step.join, step.place)
        _check_streams(step, left_name, left.rows, right.rows)
    columns = [*left.rows.columns, *right.rows.columns]
    with told(step.place, columns=columns, views=views):
        rows = _joined(step, left_name, left.rows, right.rows, step.how)
        rows = rows.select(*_columns(step, left_name, left.rows, right.rows))
    mode = "update" if "update" in (left.mode, right.mode) else "append"
    errors = tuple(dict.fromkeys((*left.errors, *right.errors)))
    return accept(name, View(rows, errors, mode), step.place)


def _joined(
    step: JoinStep, left_name: str, left: DataFrame, right: DataFrame, how: str
) -> DataFrame:
    return left.alias(left_name).join(right.alias(step.join), F.expr(step.condition), how)


def _columns(step: JoinStep, left_name: str, left: DataFrame, right: DataFrame) -> list[Column]:
    taken = set(left.columns)
    columns = [F.col(f"`{left_name}`.`{each}`") for each in left.columns]
    for each in right.columns:
        if each.startswith("_"):
            continue
        name = each if each not in taken else f"{step.join}_{each}"
        if name in taken:
            raise Problem(
                f"two columns would be called {name!r}", "Rename one of them before.", step.place
            )
        taken.add(name)
        columns.append(F.col(f"`{step.join}`.`{each}`").alias(name))
    return columns


def _check_table(step: JoinStep) -> None:
    if step.how not in ("inner", "left"):
        raise Problem(
            f"how: {step.how} would write the rows of the table that no row of the stream ever "
            "meets, and a stream never ends",
            "With a table use inner or left.",
            step.place,
        )


def _check_streams(step: JoinStep, left_name: str, left: DataFrame, right: DataFrame) -> None:
    """Refuse a join of which Spark would have to keep all rows for ever."""
    for name, rows in ((left_name, left), (step.join, right)):
        if not watermarks(rows):
            raise Problem(
                f"{name!r} has no watermark, so its rows would have to be kept for ever",
                "Say at its source which column is the event time and how late a row may be: "
                "`watermark: at 10 minutes`.",
                step.place,
            )
    with told(step.place, columns=[*left.columns, *right.columns]):
        # An outer join is possible only if its outer side's rows can be forgotten some day: so the
        # two of them together say whether both sides' can.
        outer = [_joined(step, left_name, left, right, how) for how in ("left", "right")]
    try:
        for rows in outer:
            check(rows, "append")
    except PySparkException as refused:
        if "Stream-stream" not in str(refused):
            raise
        raise Problem(
            "rows would have to be kept for ever: nothing says how far apart in time the two "
            "sides may be",
            BOUND.format(left=left_name, right=step.join),
            step.place,
        ) from None
