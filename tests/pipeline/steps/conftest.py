"""A place to try single steps at: rows in, a step, rows out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline.assembly import STEPS
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place
from penstock.pipeline.spec.model import OnError, Pipeline, Step
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PLACE = Place("orders.yml", 7, "steps[1]")
"""Where every step of these tests stands."""

ORIGIN_FIELDS = (
    "source", "topic", "partition", "offset", "file", "line", "key", "value", "headers",
)  # fmt: skip


class Bench:
    """A pipeline without a file: views are put in, steps applied, streams run."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.views = Views()
        self.policy = "fail"
        self.bootstrap = "localhost:1"
        self._streams: dict[str, Path] = {}
        self._fed = 0

    @property
    def context(self) -> Context:
        """What steps are given."""
        pipeline = Pipeline(
            name="orders",
            sources={},
            sinks={},
            bootstrap=self.bootstrap,
            on_error=OnError(policy=self.policy),
            place=Place(str(self.folder / "orders.yml")),
        )
        return Context(self.spark, pipeline, Checkpoint(str(self.folder / "checkpoint"), "id"))

    def table(self, name: str, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
        """A view of rows that are all there: most steps do not care."""
        frame = self.spark.createDataFrame(rows, schema)
        self.views.add(name, View(frame))
        return frame

    def stream(self, name: str, schema: str, watermark: str = "") -> None:
        """A view that `feed` adds rows to."""
        path = self.folder / name
        path.mkdir()
        self._streams[name] = path
        rows = self.spark.readStream.schema(schema).json(str(path))
        if watermark:
            column, _, late = watermark.partition(" ")
            rows = rows.withWatermark(column, late)
        self.views.add(name, View(rows))

    def feed(self, name: str, *rows: Mapping[str, Any]) -> None:
        """Add rows to a stream, all at once."""
        self._fed += 1
        aside = self.folder / "aside"
        aside.write_text("\n".join(json.dumps(row) for row in rows))
        aside.rename(self._streams[name] / f"{self._fed:03}.json")

    def apply(self, step: Step, name: str = "made") -> View:
        """The view that a step makes; of several, the last."""
        import importlib

        module = importlib.import_module(STEPS[type(step)])
        made: Mapping[str, View] = module.apply(self.context, step, name, self.views)
        for each, view in made.items():
            self.views.add(each, view)
        return self.views.last

    def start(self, view: View) -> Run:
        """Write a view into a list, batch by batch."""
        return Run(view, self.folder / f"query{self._fed}-{id(view)}")


class Run:
    """A view that is being written."""

    def __init__(self, view: View, checkpoint: Path) -> None:
        self.batches: list[list[tuple[Any, ...]]] = []
        self.query: StreamingQuery = (
            view.rows.writeStream.foreachBatch(self._take)
            .outputMode(view.mode)
            .option("checkpointLocation", str(checkpoint))
            .start()
        )

    def _take(self, batch: DataFrame, _batch_id: int) -> None:
        if rows := [tuple(row) for row in batch.collect()]:
            self.batches.append(sorted(rows, key=str))

    def catch_up(self) -> list[tuple[Any, ...]]:
        """What is written because of what was fed since the last time."""
        before = len(self.batches)
        self.query.processAllAvailable()
        return [row for batch in self.batches[before:] for row in batch]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.query.stop()


def origin(offset: int) -> tuple[Any, ...]:
    """The origin of a record of the topic `orders`."""
    return ("orders", "orders", 0, offset, None, None, None, b"raw", [])


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """A fresh place for every test, in the session of all."""
    return Bench(spark, tmp_path)


def rows_of(view: View) -> list[tuple[Any, ...]]:
    """All rows of a view that is not a stream, in order."""
    return sorted((tuple(row) for row in view.rows.collect()), key=str)
