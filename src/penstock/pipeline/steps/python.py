"""A function from DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.steps import PythonStep
from penstock.pipeline.steps.loading import load, user_code
from penstock.pipeline.steps.stream import accept, read_from
from penstock.pipeline.views import View, Views


def apply(context: Context, step: PythonStep, name: str, views: Views) -> Mapping[str, View]:
    """What the function makes of the rows; its options are keyword arguments."""
    _, view = read_from(step, views)
    function = load(context, step.python, step.place)
    if not callable(function):
        raise Problem(f"{step.python} is no function", "Name a function.", step.place)
    with user_code(context.path(step.python.rpartition(":")[0]), step.place):
        rows = function(view.rows, **step.options)
    if not isinstance(rows, DataFrame):
        raise Problem(
            f"{step.python} gave {type(rows).__name__} back, not a DataFrame",
            "Return what is made of the DataFrame that the function is given.",
            step.place,
        )
    if view.rows.isStreaming and not rows.isStreaming:
        raise Problem(
            f"{step.python} gave a table back, not a stream",
            "Return what is made of the DataFrame that the function is given.",
            step.place,
        )
    mode = "update" if step.emit == "update" else view.mode
    return accept(name, replace(view, rows=rows, mode=mode), step.place)
