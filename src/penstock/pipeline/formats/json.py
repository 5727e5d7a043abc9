"""Values that are JSON objects."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from penstock.pipeline.context import Context
from penstock.pipeline.formats import fields
from penstock.pipeline.formats.decoded import Decoded, itself
from penstock.pipeline.formats.schema import columns_of
from penstock.pipeline.formats.text import NOT_TEXT
from penstock.pipeline.spec.formats import Format

_MORE = "it is not JSON: something follows the object, or its end is missing"


def decode_json(context: Context, raw: Column, form: Format) -> Decoded:
    """One object per value. Fields that the schema does not name are ignored."""
    columns = columns_of(context, form)
    text = raw.cast("string")
    wide = StructType([*fields.nullable(columns), StructField(fields.CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": fields.CORRUPT}
    return Decoded(
        f.from_json(text, wide, options),
        itself,
        lambda value: _reason(raw, text, value, columns),
        columns,
    )


def _reason(raw: Column, text: Column, value: Column, columns: StructType) -> Column:
    return (
        f.when(raw.isNull(), None)
        .when(~f.is_valid_utf8(text), NOT_TEXT)
        .when(value.isNull(), "it is empty")
        # Spark would take the first object of an array, or of a sequence, and forget the rest.
        .when(~_is_embraced(raw, text), _not_an_object(_bare(text)))
        .when(_has_inner_end(raw) & _goes_on(text), _MORE)
        .when(value.getField(fields.CORRUPT).isNotNull(), _blame(text, value, columns))
        .otherwise(fields.missing_field(value, columns))
    )


def _bare(text: Column) -> Column:
    return f.btrim(text, f.lit(" \t\r\n"))


def _is_embraced(raw: Column, text: Column) -> Column:
    """Whether it begins and ends as an object. To trim costs as much as to parse: few need it."""
    bare = _bare(text)
    return f.when(
        f.startswith(raw, f.lit(b"{")) & f.endswith(raw, f.lit(b"}")),
        True,
    ).otherwise(bare.startswith("{") & bare.endswith("}"))


def _has_inner_end(raw: Column) -> Column:
    """Whether an object ends before the record does. One without others in it ends where the
    record does: its bytes tell, where characters, a pattern or a parser would cost more."""
    return f.contains(f.substring(raw, f.lit(1), f.octet_length(raw) - 1), f.lit(b"}"))


def _goes_on(text: Column) -> Column:
    """Whether there is more than one object."""
    count = f.json_array_length(f.concat(f.lit("["), text, f.lit("]")))
    # Spark reads more than JSON, single quotes and NaN for two: there, what may follow an object.
    return (count > 1) | (count.isNull() & text.rlike(r"\}\s*[^\s,\]}]"))


def _not_an_object(bare: Column) -> Column:
    return (
        f.when(bare == "", "it is empty")
        .when(bare.startswith("["), "it is a JSON array, not an object")
        .when(
            bare.startswith("{"),
            _MORE,
        )
        .otherwise("it is not a JSON object")
    )


def _blame(text: Column, value: Column, columns: StructType) -> Column:
    """Why Spark could not parse it. Only bad records pay for the second look."""
    strings = f.from_json(text, fields.as_strings(columns), {"mode": "PERMISSIVE"})
    return f.coalesce(
        f.when(f.try_parse_json(text).isNull(), "it is not JSON"),
        fields.misfit(value, strings, columns),
        f.lit("it does not fit the schema"),
    )
