"""A pipeline around one source, and what comes out of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place
from penstock.pipeline.spec.model import OnError, Pipeline, Source, Trigger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@pytest.fixture
def make_context(spark: SparkSession, tmp_path: Path) -> Callable[..., Context]:
    """A maker of contexts; the pipeline file would stand in the test's own folder."""

    def make(
        source: Source | None = None,
        *,
        policy: str = "fail",
        bootstrap: str = "",
        available_now: bool = True,
    ) -> Context:
        pipeline = Pipeline(
            name="trial",
            sources={"records": source} if source else {},
            sinks={},
            bootstrap=bootstrap,
            trigger=Trigger(available_now=available_now),
            on_error=OnError(policy=policy),
            place=Place(str(tmp_path / "trial.yml")),
        )
        return Context(spark, pipeline, Checkpoint(str(tmp_path / "checkpoint"), "1"))

    return make


@pytest.fixture
def drain(tmp_path: Path) -> Callable[..., list[Row]]:
    """Run a stream to the end of what is there; the same checkpoint goes on where it ended."""

    def run(rows: DataFrame, checkpoint: str = "default") -> list[Row]:
        taken: list[Row] = []
        query = (
            rows.writeStream.foreachBatch(lambda batch, _: taken.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint" / "queries" / checkpoint))
            .queryName(f"drain-{uuid.uuid4().hex[:8]}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return taken

    return run
