"""What Spark makes of the plan that records pass through."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decode import decode
from penstock.pipeline.sources.intake import origin, take_in
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.sources import TopicSource
from penstock.pipeline.views import ORIGIN, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = 150


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


@pytest.mark.parametrize("form", ["json", "csv"])
def test_records_of_many_columns_are_no_more_to_plan_than_those_of_few(
    spark: SparkSession, make_context: Callable[..., Context], form: str
) -> None:
    """Each column had an expression of its own that parsed the record once more."""
    from pyspark.sql import functions as f

    names = [f"it's `column` {number}" for number in range(COLUMNS)]
    schema = ", ".join(f"`{name.replace('`', '``')}` long NOT NULL" for name in names)
    wide = Format(format=form, schema=schema)
    spec = TopicSource(topic="t", value=wide)
    numbers: list[object] = list(range(COLUMNS))
    values = [
        (_record(form, names, each).encode(),)
        for each in (numbers, [*numbers[:-1], "none"], [*numbers[:-1], None])
    ]
    raw = spark.createDataFrame(values, "value binary")
    raw = raw.withColumn(ORIGIN, origin("t", value=f.col("value")))

    def view(policy: str) -> View:
        context = make_context(spec, policy=policy)
        return take_in(context, "t", raw, {"": decode(context, f.col("value"), wide)}, {}, spec)

    plan = view("fail").rows._jdf.queryExecution().optimizedPlan().toString()
    assert 0 < plan.count(f"from_{form}(") < COLUMNS
    good, (errors,) = view("dlq").rows, view("dlq").errors
    (row,) = good.collect()
    assert [row[name] for name in names] == numbers
    assert sorted(each.reason for each in errors.collect()) == [
        f"the field `{names[-1]}` is missing",
        f"the field `{names[-1]}` is not a bigint: none",
    ]


def _record(form: str, names: list[str], values: list[object]) -> str:
    if form == "json":
        return json.dumps(dict(zip(names, values, strict=True)))
    return ",".join("" if each is None else str(each) for each in values)
