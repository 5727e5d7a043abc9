"""Values decoded as a batch: what a stream does to a record, without a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline.context import Context
from penstock.pipeline.spec.formats import Format
from tests.pipeline.sources.conftest import make_context as make_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = tuple[Any, str | None]


@pytest.fixture
def decoded(
    spark: SparkSession, make_context: Callable[..., Context]
) -> Callable[..., list[Result]]:
    """What becomes of values: each as plain Python, with the reason why it cannot be read."""

    def run(form: Format, *values: bytes | None, subject: str = "") -> list[Result]:
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        from penstock.pipeline.formats.decode import decode

        frame = spark.createDataFrame(
            [(n, each) for n, each in enumerate(values)], "n int, v binary"
        )
        made = decode(make_context(), f.col("v"), form, subject)
        value = made.value
        if isinstance(made.kind, StructType):
            fields = [value.getField(each.name).alias(each.name) for each in made.kind]
            value = f.when(value.isNotNull(), f.struct(*fields))
        rows = frame.select("n", value.alias("value"), made.reason.alias("reason")).orderBy("n")
        return [
            (row.value.asDict(True) if hasattr(row.value, "asDict") else row.value, row.reason)
            for row in rows.collect()
        ]

    return run
