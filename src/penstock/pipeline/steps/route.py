"""Rows divided into views by conditions."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import functions as F

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import RouteStep
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import read_from
from penstock.pipeline.views import View, Views


def apply(_context: Context, step: RouteStep, _name: str, views: Views) -> Mapping[str, View]:
    """One view per condition; a row goes to the first whose condition holds, or nowhere."""
    if not step.route:
        raise Problem("no route is given", "Write `view: condition` at least once.", step.place)
    _, view = read_from(step, views)
    free = F.lit(True)
    made: dict[str, View] = {}
    with told(step.place, columns=view.rows.columns, views=views):
        for each, condition in step.route.items():
            # A condition over a null is neither true nor false: the row goes on to the next.
            holds = F.coalesce(F.expr(condition), F.lit(False))
            made[each] = view.with_rows(view.rows.where(free & holds))
            free = free & ~holds
    return made
