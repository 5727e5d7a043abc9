"""What a record must hold, and which of its fields is to blame when it does not."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

CORRUPT = "_penstock_corrupt"
"""The field in which Spark's parsers leave what they could not parse."""

SHOWN_MAX = 60
"""At most so many characters of a bad value stand in a reason."""


def nullable(columns: StructType) -> StructType:
    """The same columns, any of which may be null: Spark's parsers know no other."""
    return StructType([StructField(each.name, each.dataType) for each in columns])


def missing_field(value: Column, columns: StructType) -> Column:
    """The first field that must not be null and is, in words; null if there is none."""
    found = [
        f.when(present & _get(value, path).isNull(), f"the field `{'.'.join(path)}` is missing")
        for path, present in _required(value, columns)
    ]
    return f.coalesce(*found) if found else f.lit(None).cast("string")


def _required(
    value: Column, columns: StructType, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Column]]:
    present = _get(value, above).isNotNull()
    for each in columns:
        path = (*above, each.name)
        if not each.nullable:
            yield path, present
        if isinstance(each.dataType, StructType):
            yield from _required(value, each.dataType, path)


def _get(value: Column, path: tuple[str, ...]) -> Column:
    for name in path:
        value = value.getField(name)
    return value


def misfit(parsed: Column, texts: Column, columns: StructType) -> Column:
    """The first field that is there as text and yet has no value, in words.

    `texts` is the same record with every field as a string.
    """
    found = []
    for each in columns:
        if isinstance(each.dataType, (StructType, ArrayType, MapType)):
            kind = each.dataType.typeName()
        else:
            kind = each.dataType.simpleString()
        article = "an" if kind[0] in "aeiou" else "a"
        text = texts.getField(each.name)
        blamed = f"the field `{each.name}` is not {article} {kind}: "
        shown = f.when(
            f.length(text) > SHOWN_MAX, f.concat(f.left(text, f.lit(SHOWN_MAX)), f.lit("…"))
        )
        found.append(
            f.when(
                text.isNotNull() & parsed.getField(each.name).isNull(),
                f.concat(
                    f.lit(blamed),
                    f.coalesce(shown, text),
                ),
            )
        )
    return f.coalesce(*found, f.lit(None).cast("string"))


def as_strings(columns: StructType) -> StructType:
    """The same columns, all of them text."""
    return StructType([StructField(each.name, StringType()) for each in columns])
