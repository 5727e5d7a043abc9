"""Values that are lines of columns with a delimiter between them."""

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


def decode_csv(context: Context, raw: Column, form: Format) -> Decoded:
    """One line per value; it has exactly the columns of the schema."""
    columns = columns_of(context, form)
    text = raw.cast("string")
    return Decoded(
        _parse(text, fields.nullable(columns), form),
        itself,
        lambda value: _reason(raw, text, value, columns, form),
        columns,
    )


def _reason(raw: Column, text: Column, value: Column, columns: StructType, form: Format) -> Column:
    return (
        f.when(raw.isNull(), None)
        .when(~f.is_valid_utf8(text), NOT_TEXT)
        .when(f.trim(text) == "", "it is empty")
        .when(value.getField(fields.CORRUPT).isNotNull(), _blame(text, value, columns, form))
        .otherwise(fields.missing_field(value, columns))
    )


def _parse(text: Column, columns: StructType, form: Format) -> Column:
    wide = StructType([*columns, StructField(fields.CORRUPT, StringType())])
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": fields.CORRUPT,
        "sep": form.delimiter,
    }
    names = (each.name.replace("`", "``") for each in wide)
    ddl = ", ".join(
        f"`{name}` {each.dataType.simpleString()}" for name, each in zip(names, wide, strict=True)
    )
    return f.from_csv(text, ddl, options)


def _blame(text: Column, value: Column, columns: StructType, form: Format) -> Column:
    """Why Spark could not parse it. Only bad records pay for the second look."""
    strings = _parse(text, fields.as_strings(columns), form)
    return f.coalesce(
        f.when(
            strings.getField(fields.CORRUPT).isNotNull(),
            f"it does not have {len(columns)} columns",
        ),
        fields.misfit(value, strings, columns),
        f.lit("it does not fit the schema"),
    )
