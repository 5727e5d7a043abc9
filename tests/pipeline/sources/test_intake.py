"""What Spark makes of the plan that records pass through."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decode import decode
from penstock.pipeline.sources.intake import origin, take_in
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.sources import TopicSource
from penstock.pipeline.views import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("policy", ["fail", "dlq", "drop"])
def test_a_record_is_parsed_once_and_only_for_the_columns_that_are_used(
    spark: SparkSession, make_context: Callable[..., Context], policy: str
) -> None:
    from pyspark.sql import functions as f

    form = Format(format="json", schema="id long, name string")
    spec = TopicSource(topic="t", value=form)
    context = make_context(spec, policy=policy)
    values = [(b'{"id": 1, "name": "a"}',), (b'{"id": 2}',)]
    raw = spark.createDataFrame(values, "value binary")
    raw = raw.withColumn(ORIGIN, origin("t", value=f.col("value"), key=f.lit(b"unused")))
    view = take_in(context, "t", raw, {"": decode(context, f.col("value"), form)}, {}, spec)
    rows = view.rows.where("id > 0").select("id")
    plan = rows._jdf.queryExecution().optimizedPlan().toString()
    filters = [line for line in plan.splitlines() if "Filter" in line]
    assert filters
    assert not any("from_json" in line for line in filters)
    assert "unused" not in plan
    assert sorted(row.id for row in rows.collect()) == [1, 2]
