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
