"""From raw records to a view: columns for those that can be read, a way out for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.spec.shapes import split_watermark
from penstock.pipeline.views import ORIGIN, ORIGIN_TYPE, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.formats.decoded import Decoded
    from penstock.pipeline.spec.sources import FileSource, TopicSource

OBSERVED = "penstock_errors"
"""The metric that counts records which could not be read: its column is `bad`."""

REASON, STAYS = "_reason", "_stays"

_PLACE = ("topic", "partition", "offset", "file", "line")
"""The parts of an origin that say where a record stands."""


def origin(source: str, **known: Column) -> Column:
    """What a record was made of: what is not given is null."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType, _parse_datatype_string

    kind = _parse_datatype_string(ORIGIN_TYPE)
    assert isinstance(kind, StructType)
    parts = {"source": f.lit(source), **known}
    return f.struct(
        *(parts.get(each.name, f.lit(None)).cast(each.dataType).alias(each.name) for each in kind)
    )


def take_in(
    context: Context,
    name: str,
    raw: DataFrame,
    decoded: Mapping[str, Decoded],
    kept: Mapping[str, Column],
    spec: TopicSource | FileSource,
) -> View:
    """A view of the source `name`.

    `raw` has a column `_origin`. `decoded` says how columns are read: under the name `""` stands
    the payload, whose fields become columns of their own. `kept` are further columns.
    """
    from pyspark.sql import functions as f

    parsed = raw.select(
        "*",
        *(each.parsed.alias(_hidden(column)) for column, each in decoded.items()),
        # By themselves: the origin holds the whole record, and is not made where nobody wants it.
        *(f.col(ORIGIN)[each].alias(_at(each)) for each in _PLACE),
        f.rand(0).alias(STAYS),
    )
    read = parsed.select(
        *(
            each.value_of(f.col(_hidden(column))).alias(_hidden(column))
            for column, each in decoded.items()
        ),
        _reason(decoded).alias(REASON),
        *(column.alias(each) for each, column in kept.items()),
        f.col(ORIGIN),
        *(f.col(_at(each)) for each in _PLACE),
        f.col(STAYS),
    )
    good, errors = _sort_out(context, name, read)
    columns = [
        *_columns(decoded, (*kept, ORIGIN), spec),
        *(f.col(each) for each in (*kept, ORIGIN)),
    ]
    return View(with_watermark(good.select(*columns), spec.watermark, spec.place), errors)


def _sort_out(
    context: Context, name: str, read: DataFrame
) -> tuple[DataFrame, tuple[DataFrame, ...]]:
    """The records that could be read, and frames of those that could not, as `on_error` says."""
    from pyspark.sql import functions as f

    good = _above_the_parsing(f.col(REASON).isNull())
    policy = context.pipeline.on_error.policy
    if policy == "dlq":
        bad = read.where(_above_the_parsing(f.col(REASON).isNotNull()))
        # Counted by the query that writes them.
        return read.where(good), (bad.select(f.col(REASON).alias("reason"), ORIGIN),)
    if policy == "drop":
        count = f.count_if(f.col(REASON).isNotNull()).alias("bad")
        return read.observe(_metric(context, name), count).where(good), ()
    return read.where(f.when(good, True).otherwise(f.raise_error(_complaint()))), ()


def _above_the_parsing(condition: Column) -> Column:
    """The same condition, which Spark leaves above the parsing.

    Pushed below it, every record would be parsed twice: for the condition, and for its columns.
    Spark pushes nothing through a projection that has something random in it, and the condition
    asks for that, lest it be left out.
    """
    from pyspark.sql import functions as f

    return f.when(f.col(STAYS) >= 0, condition)


def _columns(
    decoded: Mapping[str, Decoded], taken: tuple[str, ...], spec: TopicSource | FileSource
) -> Iterator[Column]:
    """What was decoded, under the names that steps use."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    for column, each in decoded.items():
        value = f.col(_hidden(column))
        if column:
            yield value.alias(column)
        elif not isinstance(each.kind, StructType):
            yield value.alias("value")
        else:
            for field in each.kind.fieldNames():
                if field in (*taken, *decoded):
                    raise Problem(
                        f"the payload has a field {field!r}, and so is called what describes the "
                        "record",
                        "Leave it out of the schema, or read the value as a string and take it "
                        "apart in a step.",
                        spec.place,
                    )
                yield value.getField(field).alias(field)


def _at(part: str) -> str:
    return f"_at_{part}"


def _hidden(column: str) -> str:
    return f"_decoded{column}"


def _reason(decoded: Mapping[str, Decoded]) -> Column:
    """What is wrong with a record: the first of what is wrong with its parts."""
    from pyspark.sql import functions as f

    found = []
    for column, each in decoded.items():
        reason = each.reason_of(f.col(_hidden(column)))
        found.append(f.concat(f.lit(f"{column.lstrip('_')}: "), reason) if column else reason)
    return f.coalesce(*found)


def _metric(context: Context, name: str) -> str:
    # Spark wants each name once in a query, and a query may join several sources.
    return OBSERVED if len(context.pipeline.sources) == 1 else f"{OBSERVED}_{name}"


def _complaint() -> Column:
    """What is said about a record that stops the pipeline: where it stands and what is wrong."""
    from pyspark.sql import functions as f

    topic, partition, offset, file, line = (f.col(_at(each)) for each in _PLACE)
    record = f.format_string("the record of %s-%s at offset %s", topic, partition, offset)
    where = f.when(topic.isNotNull(), record).otherwise(
        f.format_string("line %s of %s", line, file)
    )
    return f.concat(where, f.lit(" cannot be read: "), f.col(REASON))


def with_watermark(rows: DataFrame, watermark: str, place: Place) -> DataFrame:
    """The same rows, with event time: `watermark` is a column and how late a row may be."""
    if not watermark:
        return rows
    column, late = split_watermark(watermark)
    if column not in rows.columns:
        raise Problem(
            f"the watermark's column {column!r} is not there",
            f"Known: {', '.join(rows.columns)}.",
            place,
        )
    kind = dict(rows.dtypes)[column]
    if kind not in ("timestamp", "timestamp_ntz"):
        raise Problem(
            f"the watermark's column {column!r} is of type {kind}, not a timestamp",
            "Give it the type timestamp in the schema.",
            place,
        )
    return rows.withWatermark(column, late)
