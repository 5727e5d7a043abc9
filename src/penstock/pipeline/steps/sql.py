"""A SELECT over the views before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.errors import ParseException

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import SqlStep
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import accept, read_from
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def apply(context: Context, step: SqlStep, name: str, views: Views) -> Mapping[str, View]:
    """The result of the statement; it may name any view that stands before it."""
    before, _ = read_from(step, views)
    statement = step.sql.strip().rstrip(";").replace("{}", f"`{before}`")
    if not statement:
        raise Problem("the statement is empty", "Write a SELECT.", step.place)
    with told(step.place):
        context.spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    with told(step.place, views=views, lines_before=1):
        rows = _query(context, step, statement)
    known = {each.lower(): view for each, view in views.items()}
    used = [known[each] for each in _used(rows) if each in known]
    mode = "update" if step.emit == "update" or any(v.mode == "update" for v in used) else "append"
    errors = tuple(dict.fromkeys(frame for view in used for frame in view.errors))
    return accept(name, View(rows, errors, mode), step.place)


def _query(context: Context, step: SqlStep, statement: str) -> DataFrame:
    try:
        # In brackets only a query is understood: nothing can be created or deleted here.
        return context.spark.sql(f"SELECT * FROM (\n{statement}\n)")
    except ParseException:
        raise Problem(
            "the statement is no SELECT", "Only queries can be steps.", step.place
        ) from None


def _used(rows: DataFrame) -> list[str]:
    """The views that a frame is made of, those behind them included, in small letters."""
    plan = str(rows._jdf.queryExecution().analyzed().toString())
    return [each.lower() for each in re.findall(r"View \(`([^`]+)`", plan)]
