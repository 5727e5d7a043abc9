"""What Spark is given to work on for one query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.assembly import assemble
from penstock.pipeline.checkpoint import open_checkpoint
from penstock.pipeline.context import Context
from penstock.pipeline.running.query import RunningQuery
from penstock.pipeline.views import ORIGIN
from penstock.testing import Broker
from tests.pipeline.running.scene import pipeline_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINK = "def send(batch, batch_id):\n    batch.count()\n"


@pytest.mark.parametrize(
    ("sink", "more", "carried"),
    [
        ("parquet: lake", "", False),
        ("parquet: lake, partition_by: [_origin.source AS source]", "", True),
        ("python: deliver.py:send", "", True),
        (
            "parquet: lake",
            "steps: [{deduplicate: [_offset], watermark: _timestamp 1 hour}]\n",
            True,
        ),
    ],
    ids=["no sink wants it", "named in the file", "a function may want it", "part of state"],
)
def test_batches_carry_what_a_record_was_made_of_only_where_it_may_be_asked_for(
    spark: SparkSession, tmp_path: Path, sink: str, more: str, carried: bool
) -> None:
    (tmp_path / "deliver.py").write_text(SINK)
    pipeline = pipeline_in(
        tmp_path,
        f"name: orders\nsources: {{orders: {{topic: t}}}}\n{more}sinks: {{out: {{{sink}}}}}\n",
    )
    context = Context(spark, pipeline, open_checkpoint(pipeline))
    (query,) = assemble(context)
    assert ORIGIN in query.view.rows.columns
    assert (ORIGIN in RunningQuery(context, query)._rows().columns) == carried


@pytest.mark.parametrize(
    ("sink", "carried"),
    [
        ("parquet: lake", {"value", "_timestamp"}),
        ("parquet: lake, partition_by: [day]", {"value", "_timestamp"}),
        ("parquet: lake, partition_by: [_topic AS topic]", {"value", "_timestamp", "_topic"}),
        ("parquet: lake, partition_by: [_TOPIC AS topic]", {"value", "_timestamp", "_topic"}),
        (
            "topic: other",
            {"value", "_key", "_headers", "_timestamp", "_topic", "_partition", "_offset"},
        ),
    ],
)
def test_a_batch_for_a_lake_has_what_the_lake_holds(
    spark: SparkSession,
    pipeline_broker: Broker,
    tmp_path: Path,
    sink: str,
    carried: set[str],
) -> None:
    pipeline = pipeline_in(
        tmp_path,
        f"name: orders\nbootstrap: {pipeline_broker.bootstrap_servers}\n"
        f"sources: {{orders: {{topic: t}}}}\nsinks: {{out: {{{sink}}}}}\n",
    )
    context = Context(spark, pipeline, open_checkpoint(pipeline))
    (query,) = assemble(context)
    assert set(RunningQuery(context, query)._rows().columns) == carried
