"""The Python sink: a user's function is given each batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks import python
from penstock.pipeline.spec.sinks import PythonSink
from tests.pipeline.sinks.lake_scene import context_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELIVER = """
NOT_A_FUNCTION = 1

def send(batch, batch_id, target):
    with open(target, "a") as file:
        for row in batch.collect():
            file.write(f"{batch_id} {row.id}\\n")

def fail(batch, batch_id):
    raise ValueError("no such door")
"""


def test_the_function_gets_rows_number_and_options(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "deliver.py").write_text(DELIVER)
    target = tmp_path / "sent"
    spec = PythonSink(python="deliver.py:send", options={"target": str(target)})
    sink = python.open_sink(context_of(spark, tmp_path, spec), "out", spec)
    rows = spark.range(2)
    sink.prepare(rows)
    sink.write(rows, 3)
    assert sorted(target.read_text().splitlines()) == ["3 0", "3 1"]


def test_what_the_function_raises_names_its_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "deliver.py").write_text(DELIVER)
    spec = PythonSink(python="deliver.py:fail")
    sink = python.open_sink(context_of(spark, tmp_path, spec), "out", spec)
    with pytest.raises(Problem, match=r"deliver\.py:10: ValueError: no such door"):
        sink.write(spark.range(1), 0)


def test_what_is_no_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deliver.py").write_text(DELIVER)
    spec = PythonSink(python="deliver.py:NOT_A_FUNCTION")
    with pytest.raises(Problem, match="is no function"):
        python.open_sink(context_of(None, tmp_path, spec), "out", spec)
