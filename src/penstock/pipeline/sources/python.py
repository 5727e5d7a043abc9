"""Any Python data source, from a file beside the pipeline."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sources.intake import origin, with_watermark
from penstock.pipeline.spec.shapes import split_python
from penstock.pipeline.spec.sources import PythonSource
from penstock.pipeline.views import ORIGIN, View

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource


def open_source(context: Context, name: str, spec: PythonSource) -> View:
    """The rows that the class gives, with the options of the pipeline file."""
    made = load_source(context, spec)
    context.spark.dataSource.register(made)
    rows = context.spark.readStream.format(made.name()).options(**spec.options).load()
    if ORIGIN not in rows.columns:
        rows = rows.withColumn(ORIGIN, origin(name))
    return View(with_watermark(rows, spec.watermark, spec.place))


def load_source(context: Context, spec: PythonSource) -> type[DataSource]:
    """The class that `file.py:Class` names, ready to travel to executors as it is."""
    from pyspark.sql.datasource import DataSource

    file, name = split_python(spec.python)
    module = _load(context.path(file), spec.place)
    found = getattr(module, name, None)
    if not (inspect.isclass(found) and issubclass(found, DataSource)):
        raise Problem(
            f"{file} has no data source called {name!r}",
            "It is a class that extends pyspark.sql.datasource.DataSource.",
            spec.place,
        )
    return found


def _load(path: str, place: Place) -> object:
    import importlib.util
    import os
    import sys

    from pyspark import cloudpickle

    name = os.path.basename(path).removesuffix(".py")
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise Problem(f"{path} is not a Python file", "", place)
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except Exception as fault:
        del sys.modules[name]
        raise Problem(
            f"{path} cannot be loaded: {type(fault).__name__}: {fault}",
            "It is imported when the pipeline starts.",
            place,
        ) from fault
    # By value: what the file defines goes to the executors inside the pickle, wherever they are.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module
