"""The console sink: what is on standard output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks import console
from penstock.pipeline.spec.sinks import ConsoleSink
from tests.pipeline.sinks.lake_scene import context_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: ConsoleSink
) -> str:
    rows = spark.range(0, 5, numPartitions=1).selectExpr(
        "id", "if(id = 1, null, 'x' || id) as name", "id as _offset"
    )
    sink = console.open_sink(context_of(spark, tmp_path, spec), "out", spec)
    sink.prepare(rows)
    sink.write(rows, 4)
    sink.write(rows.where("id > 5"), 5)
    return capsys.readouterr().out


def test_a_table_has_a_heading_some_rows_and_says_that_there_are_more(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(spark, tmp_path, capsys, ConsoleSink(console=2)).splitlines() == [
        "-- out, batch 4",
        " id name",
        "  0   x0",
        "  1 None",
        "...",
    ]


def test_json_is_a_line_for_each_row_and_nothing_else(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(spark, tmp_path, capsys, ConsoleSink(console=9, format="json")).splitlines()
    assert [json.loads(line) for line in lines][:2] == [{"id": 0, "name": "x0"}, {"id": 1}]
    assert len(lines) == 5


def test_a_number_of_rows_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    spec = ConsoleSink(console=1_000_000)
    with pytest.raises(Problem, match="must be between 1 and 10000"):
        console.open_sink(context_of(None, tmp_path, spec), "out", spec)
