"""A function that is given each batch. At least once: the batch's number lets it do better."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.sinks import PythonSink
from penstock.pipeline.steps.loading import load, user_code

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def open_sink(context: Context, name: str, spec: PythonSink) -> OpenPython:
    """The sink of this name, with its function loaded."""
    function = load(context, spec.python, spec.place)
    if not callable(function):
        raise Problem(f"{spec.python} is no function", f"sinks.{name} has to name one.", spec.place)
    return OpenPython(context, spec, function)


class OpenPython:
    """Calls `function(batch, batch_id, **options)`."""

    def __init__(self, context: Context, spec: PythonSink, function: Callable[..., Any]) -> None:
        self._place = spec.place
        self._file = context.path(spec.python.rpartition(":")[0])
        self._options = spec.options
        self._function = function

    def prepare(self, rows: DataFrame) -> None:
        """The function prepares what it needs."""

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Call the function; it is called again with the same number after a crash."""
        with user_code(self._file, self._place):
            self._function(batch, batch_id, **self._options)
