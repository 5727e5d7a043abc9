"""From the rows of a view to records: keys, values, headers, times and topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.formats.encode import encode
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.spec.sinks import TopicSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS_TYPE = "array<struct<key: string, value: binary>>"


POSITION = ("_topic", "_partition", "_offset", "_file", "_line")


def fixed_topic(spec: TopicSink) -> str:
    """The sink's topic; empty if each row names its own."""
    return "" if topic_column(spec) else spec.topic


def place_in(context: Context, spec: TopicSink) -> Place:
    """Where the sink stands in its file."""
    return spec.place if spec.place.file else context.pipeline.place


def topic_column(spec: TopicSink) -> str:
    """The column that names each row's topic, for `{column}`; else empty."""
    found = re.fullmatch(r"\{(.+)\}", spec.topic)
    return found[1].strip() if found else ""


def to_records(context: Context, spec: TopicSink, rows: DataFrame) -> DataFrame:
    """`key` and `value` in bytes, and what else the sink asks for: headers, timestamp, topic."""
    from pyspark.errors import AnalysisException

    columns = {
        "key": _key(rows, spec),
        "value": encode(rows, spec.value, context),
    }
    if spec.headers:
        columns["headers"] = _headers(rows, spec)
    if spec.timestamp:
        columns["timestamp"] = _time_ms(rows, spec.timestamp)
    if name := topic_column(spec):
        columns["topic"] = _sql(name).cast("string")
    try:
        return rows.select(*(made.alias(name) for name, made in columns.items()))
    except AnalysisException as wrong:
        raise _no_such(context, spec, rows, wrong) from None


def largest_record(context: Context, spec: TopicSink, rows: DataFrame) -> str:
    """The size, the key and, as far as the view still has it, the origin of the largest record."""
    from pyspark.sql import functions as f

    key, value = _key(rows, spec), encode(rows, spec.value, context)
    nothing = f.lit(0)
    size = f.coalesce(f.length(key), nothing) + f.coalesce(f.length(value), nothing)
    known = [name for name in POSITION if name in rows.columns]
    found = rows.select(size.alias("size"), key.alias("key"), *known)
    row = found.orderBy(f.desc("size")).first()
    if row is None:
        return "it was not found again"
    named = "no key"
    if row["key"] is not None:
        named = f"the key {bytes(row['key'])[:80].decode('utf-8', 'replace')!r}"
    where = ""
    if "_offset" in known:
        where = f", from {row['_topic']}-{row['_partition']}@{row['_offset']}"
    elif "_file" in known:
        where = f", from {row['_file']}:{row['_line']}"
    return f"it has {row['size']:,} bytes and {named}{where}"


def _key(rows: DataFrame, spec: TopicSink) -> Column:
    from pyspark.sql import functions as f

    if spec.key:
        return _bytes(rows, spec.key)
    if "_key" in rows.columns:
        return _bytes(rows, "_key")
    return f.lit(None).cast("binary")


def _headers(rows: DataFrame, spec: TopicSink) -> Column:
    from pyspark.sql import functions as f

    made = [
        f.struct(f.lit(name).alias("key"), _bytes(rows, expression).alias("value"))
        for name, expression in spec.headers.items()
    ]
    return f.array(*made).cast(HEADERS_TYPE)


def _bytes(rows: DataFrame, expression: str) -> Column:
    """A value as bytes: text as it is, numbers and times as their text, the rest as JSON."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    kind = _type(rows, expression)
    value = _sql(expression)
    if isinstance(kind, (t.StructType, t.ArrayType, t.MapType)):
        return f.to_json(value).cast("binary")
    if isinstance(kind, t.BinaryType):
        return value
    return value.cast("string").cast("binary")


def _time_ms(rows: DataFrame, expression: str) -> Column:
    """A time in milliseconds; a number is one already."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    value = _sql(expression)
    if isinstance(_type(rows, expression), t.NumericType):
        return value.cast("long")
    return f.unix_millis(value.cast("timestamp"))


def _type(rows: DataFrame, expression: str) -> object:
    from pyspark.errors import AnalysisException

    try:
        return rows.select(_sql(expression)).schema.fields[0].dataType
    except AnalysisException:
        return None  # `to_records` meets it again, and tells


def _sql(expression: str) -> Column:
    from pyspark.sql import functions as f

    return f.expr(expression)


def _no_such(context: Context, spec: TopicSink, rows: DataFrame, wrong: Exception) -> Problem:
    said = str(wrong).partition("\n")[0]
    named = {"key": spec.key, "timestamp": spec.timestamp, "topic": topic_column(spec)}
    named.update({f"headers.{name}": told for name, told in spec.headers.items()})
    for name, expression in named.items():
        if expression and _type(rows, expression) is None:
            said = f"`{name}: {expression}` of the topic sink cannot be computed"
            break
    return Problem(said, f"The view has: {', '.join(rows.columns)}.", place_in(context, spec))
