"""What a record must hold, and which of its fields is to blame when it does not."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

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

    `texts` is the same record with every field as a string. Fields are told apart by their names
    as data: an expression for each of them would hold the parsing of all, again and again, and
    Spark would plan records of 150 fields for twice as long.
    """
    kinds = {each.name: _kind(each.dataType) for each in columns}
    names = f.expr(f"array({', '.join(map(_literal, kinds))})")
    told = f.expr(f"map({', '.join(_literal(each) for pair in kinds.items() for each in pair)})")
    there = f.from_json(f.to_json(texts), "map<string, string>")  # neither has keys of nulls
    has_value = f.json_object_keys(f.to_json(parsed))
    blamed = f.get(
        f.filter(
            names,
            lambda name: f.map_contains_key(there, name) & ~f.array_contains(has_value, name),
        ),
        f.lit(0),
    )
    text = f.try_element_at(there, blamed)
    shown = f.when(
        f.length(text) > SHOWN_MAX, f.concat(f.left(text, f.lit(SHOWN_MAX)), f.lit("…"))
    ).otherwise(text)
    kind = f.try_element_at(told, blamed)
    return f.concat(f.lit("the field `"), blamed, f.lit("` is not "), kind, f.lit(": "), shown)


def _kind(kind: DataType) -> str:
    """A type with its article: `a bigint`."""
    nested = isinstance(kind, (StructType, ArrayType, MapType))
    name = kind.typeName() if nested else kind.simpleString()
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _literal(text: str) -> str:
    """Text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def as_strings(columns: StructType) -> StructType:
    """The same columns, all of them text."""
    return StructType([StructField(each.name, StringType()) for each in columns])
