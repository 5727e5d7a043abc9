"""Functions and classes from Python files that lie beside a pipeline."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from types import ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import PySparkException

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.spec.shapes import split_python
from penstock.pipeline.steps.refusal import nearest, shortened


def load(context: Context, given: str, place: Place) -> Any:
    """What `file.py:name` stands for."""
    file, name = split_python(given)
    path = context.path(file)
    if not os.path.isfile(path):
        raise Problem(f"there is no file {path}", "Paths begin at the pipeline's folder.", place)
    module = _module(path, place)
    if not hasattr(module, name):
        public = [each for each in vars(module) if not each.startswith("_")]
        raise Problem(f"{file} has no {name!r}", nearest(name, public), place)
    return getattr(module, name)


@contextmanager
def user_code(path: str, place: Place) -> Iterator[None]:
    """Turn what the user's own code raises into a Problem that names the line of their file."""
    try:
        yield
    except Problem:
        raise
    except Exception as raised:
        kind = type(raised).__name__
        told = str(raised).strip().partition("\n")[0]
        if isinstance(raised, PySparkException):
            told = shortened(str(raised))
        raise Problem(f"{_line(path, raised)}: {kind}: {told}", "", place) from raised


def _line(path: str, raised: Exception) -> str:
    if isinstance(raised, SyntaxError):
        return f"{raised.filename}:{raised.lineno}"
    folder = os.path.dirname(path)
    theirs = [
        frame
        for frame in traceback.extract_tb(raised.__traceback__)
        if os.path.dirname(os.path.abspath(frame.filename)) == folder
    ]
    return f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else path


def _module(path: str, place: Place) -> ModuleType:
    """The file as a module, run anew: it may have changed since another pipeline used it."""
    folder, file = os.path.split(os.path.abspath(path))
    # Two pipelines in one process may each have a `transforms.py`.
    name = f"{file.removesuffix('.py')}_{sha256(folder.encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        with user_code(path, place):
            spec.loader.exec_module(module)
    except Problem:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(folder)
    _let_travel(folder)
    return module


def _let_travel(folder: str) -> None:
    """Send what was loaded from this folder along with the functions that use it.

    Executors do not have the pipeline's folder: their tasks carry the code itself.
    """
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and os.path.dirname(os.path.abspath(file)) == folder:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
