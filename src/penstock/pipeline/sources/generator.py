"""Made-up rows, for trials."""

from __future__ import annotations

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources.intake import origin, with_watermark
from penstock.pipeline.spec.sources import GeneratorSource
from penstock.pipeline.views import ORIGIN, View


def open_source(context: Context, name: str, spec: GeneratorSource) -> View:
    """So many rows a second: `value` counts from 0, `timestamp` is when the row was made."""
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as f

    options = {"rowsPerSecond": str(spec.generate), **spec.options}
    rows = context.spark.readStream.format("rate").options(**options).load()
    made = rows.select("value", "timestamp")
    for column, expression in spec.columns.items():
        try:
            made = made.withColumn(column, f.expr(expression))
        except (AnalysisException, ParseException) as fault:
            raise Problem(
                f"the column {column!r} of {name!r} cannot be made: {str(fault).splitlines()[0]}",
                "It is an SQL expression over `value`, `timestamp` and the columns before it.",
                spec.place,
            ) from fault
    made = made.withColumn(ORIGIN, origin(name, offset=f.col("value")))
    return View(with_watermark(made, spec.watermark, spec.place))
