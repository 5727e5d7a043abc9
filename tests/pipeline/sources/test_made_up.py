"""Generators, and data sources that users write."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources import generator, python
from penstock.pipeline.spec.sources import GeneratorSource, PythonSource

if TYPE_CHECKING:
    from pyspark.sql import Row

    Make = Callable[..., Context]
    Drain = Callable[..., list[Row]]

SOURCE = """
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

STEP = 2

class Count(DataSource):
    @classmethod
    def name(cls):
        return "count"

    def schema(self):
        return "n int"

    def simpleStreamReader(self, schema):
        return Reader(int(self.options["up_to"]))

class Reader(SimpleDataSourceStreamReader):
    def __init__(self, up_to):
        self.up_to = up_to

    def initialOffset(self):
        return {"at": 0}

    def read(self, start):
        end = min(start["at"] + STEP, self.up_to)
        return iter([(n,) for n in range(start["at"], end)]), {"at": end}

    def readBetweenOffsets(self, start, end):
        return iter([(n,) for n in range(start["at"], end["at"])])
"""


def test_a_generator_counts_and_adds_columns(make_context: Make, tmp_path: Path) -> None:
    spec = GeneratorSource(
        generate=50, columns={"page": "concat('/', value % 10)"}, watermark="timestamp 1 minute"
    )
    view = generator.open_source(make_context(spec), "clicks", spec)
    taken: list[Row] = []
    query = (
        view.rows.writeStream.foreachBatch(lambda batch, _: taken.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "clicks"))
        .start()
    )
    due = time.monotonic() + 60
    while not taken and time.monotonic() < due:
        time.sleep(0.1)
    query.stop()
    assert sorted(row.value for row in taken) == list(range(len(taken)))
    assert taken[0].page == f"/{taken[0].value % 10}"


def test_a_column_that_cannot_be_made_is_told_by_its_name(make_context: Make) -> None:
    spec = GeneratorSource(generate=1, columns={"page": "nothing + 1"})
    with pytest.raises(Problem, match="the column 'page' of 'clicks' cannot be made") as caught:
        generator.open_source(make_context(spec), "clicks", spec)
    assert caught.value.advice


def test_a_data_source_of_the_user_travels_with_all_that_its_file_defines(
    make_context: Make, drain: Drain, tmp_path: Path
) -> None:
    (tmp_path / "counting.py").write_text(SOURCE)
    spec = PythonSource(python="counting.py:Count", options={"up_to": "2"})
    view = python.open_source(make_context(spec), "count", spec)
    assert [row.n for row in drain(view.rows)] == [0, 1]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("counting.py:Missing", r"counting\.py has no data source called 'Missing'"),
        ("counting.py:Reader", r"counting\.py has no data source called 'Reader'"),
        ("broken.py:Count", r"broken\.py cannot be loaded: NameError"),
    ],
)
def test_a_data_source_that_cannot_be_had_is_told_with_advice(
    make_context: Make, tmp_path: Path, named: str, said: str
) -> None:
    (tmp_path / "counting.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("nonsense")
    spec = PythonSource(python=named)
    with pytest.raises(Problem, match=said) as caught:
        python.open_source(make_context(spec), "count", spec)
    assert caught.value.advice
