"""Steps that look at one row at a time: select, filter, rename."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import FilterStep, RenameStep, SelectStep
from penstock.pipeline.steps.refusal import told
from penstock.pipeline.steps.stream import accept, known_column, read_from
from penstock.pipeline.views import View, Views


def apply(
    _context: Context, step: SelectStep | FilterStep | RenameStep, name: str, views: Views
) -> Mapping[str, View]:
    """The rows with other columns, or fewer rows."""
    _, view = read_from(step, views)
    with told(step.place, columns=view.rows.columns, views=views):
        if isinstance(step, SelectStep):
            made = _select(view, step)
        elif isinstance(step, FilterStep):
            made = view.with_rows(view.rows.where(step.filter))
        else:
            made = _rename(view, step)
    return accept(name, made, step.place)


def describing(columns: list[str]) -> list[str]:
    """The columns that describe a record rather than being part of it."""
    return [each for each in columns if each.startswith("_")]


def _select(view: View, step: SelectStep) -> View:
    rows = view.rows
    if not step.select:
        raise Problem("nothing is selected", "Name at least one column.", step.place)
    wanted = rows.selectExpr(*step.select).columns
    kept = [f"`{each}`" for each in describing(rows.columns) if each not in wanted]
    return view.with_rows(rows.selectExpr(*step.select, *kept))


def _rename(view: View, step: RenameStep) -> View:
    rows = view.rows
    for old in step.rename:
        known_column(rows, old, step.place)
    after = [step.rename.get(each, each) for each in rows.columns]
    twice = sorted({each for each in after if after.count(each) > 1})
    if twice:
        raise Problem(
            f"two columns would be called {twice[0]!r}", "Choose another name.", step.place
        )
    return view.with_rows(rows.withColumnsRenamed(dict(step.rename)))
