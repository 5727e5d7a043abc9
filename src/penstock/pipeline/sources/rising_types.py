"""The columns of a PostgreSQL table, as Spark knows them."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.pipeline.sources.rising import quoted

TYPES: dict[int, DataType] = {
    16: BooleanType(),
    17: BinaryType(),
    20: LongType(),
    21: ShortType(),
    23: IntegerType(),
    26: LongType(),
    700: FloatType(),
    701: DoubleType(),
    1082: DateType(),
    1114: TimestampType(),
    1184: TimestampType(),
}
"""By the numbers that PostgreSQL gives its types; all others come as their text."""

NUMERIC = 1700
DIGITS_MAX = 38


def columns_of_table(description: Any) -> StructType:
    """The columns of a result."""
    return StructType([StructField(each.name, _type(each)) for each in description])


def _type(column: Any) -> DataType:
    if column.type_code != NUMERIC:
        return TYPES.get(column.type_code, StringType())
    if column.precision and column.precision <= DIGITS_MAX:
        return DecimalType(column.precision, column.scale or 0)
    # Without bounds of its own a numeric gets those that Spark gives it too.
    return DecimalType(DIGITS_MAX, 18)


def selected(column: StructField) -> str:
    """How a column is asked for, so that what comes is of its type."""
    name = quoted(column.name)
    if isinstance(column.dataType, StringType):
        return f"{name}::text"
    if isinstance(column.dataType, DecimalType):
        return f"{name}::numeric({column.dataType.precision},{column.dataType.scale})"
    return name
