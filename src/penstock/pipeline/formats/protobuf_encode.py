"""Rows to Protobuf messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from google.protobuf import json_format, message_factory  # type: ignore[import-untyped]
from google.protobuf.descriptor import (  # type: ignore[import-untyped]
    Descriptor,
    FieldDescriptor,
)
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from penstock.pipeline.context import Context
from penstock.pipeline.formats.descriptors import class_of, descriptor_set, message_of
from penstock.pipeline.formats.protobuf import (
    AS_JSON,
    DURATION,
    TIMESTAMP,
    WRAPPERS,
    is_map,
    spark_type,
)
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format


def encode_protobuf(context: Context, payload: DataFrame, form: Format, subject: str) -> Column:
    """The bytes of each row, as the message says. Null leaves a field unset."""
    files = descriptor_set(context, form, subject)
    message = message_of(files, form)
    kinds = spark_type(message, form)
    known = kinds.fieldNames()
    if unknown := [name for name in payload.columns if name not in known]:
        raise Problem(
            f"the message {message.full_name} has no field {', '.join(map(repr, unknown))}",
            f"Its fields are {', '.join(known)}.",
            form.place,
        )
    packed = f.struct(
        *(f.col(f"`{each}`").cast(kinds[each].dataType).alias(each) for each in payload.columns)
    )
    name = message.full_name

    @arrow_udf("binary")  # type: ignore[call-overload]
    def write(rows):  # type: ignore[no-untyped-def]
        import pyarrow as pa  # type: ignore[import-untyped]

        cls = class_of(files, name)
        fill = filler(cls.DESCRIPTOR)
        values = [
            None if row is None else cls(**fill(row)).SerializeToString(deterministic=True)
            for row in rows.to_pylist()
        ]
        return pa.array(values, pa.binary())

    made: Column = write(packed)
    return made


def filler(message: Descriptor) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A function from a row to what the constructor of the message takes."""
    fillers = {each.name: _field(each) for each in message.fields}

    def fill(row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: fillers[name](value) for name, value in row.items() if value is not None}

    return fill


def _field(field: FieldDescriptor) -> Callable[[Any], Any]:
    if is_map(field):
        value = _one(field.message_type.fields_by_name["value"])
        return lambda got: {key: value(each) for key, each in dict(got).items()}
    one = _one(field)
    return (lambda got: [one(each) for each in got]) if field.is_repeated else one


def _one(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.type == FieldDescriptor.TYPE_ENUM:
        numbers = field.enum_type.values_by_name
        return lambda got: numbers[got].number if got in numbers else int(got)
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return int
    if field.message_type is None:
        return lambda got: got
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return _timestamp
    if name == DURATION:
        return _duration
    if name in WRAPPERS:
        inner = _one(field.message_type.fields_by_name["value"])
        return lambda got: {"value": inner(got)}
    if name in AS_JSON:
        cls = message_factory.GetMessageClass(field.message_type)
        return lambda got: json_format.Parse(got, cls())
    return filler(field.message_type)


def _timestamp(got: datetime) -> dict[str, int]:
    seconds = int(got.timestamp() // 1)
    return {"seconds": seconds, "nanos": got.microsecond * 1000}


def _duration(got: timedelta) -> dict[str, int]:
    micros = got // timedelta(microseconds=1)
    seconds = abs(micros) // 1_000_000 * (1 if micros >= 0 else -1)
    return {"seconds": seconds, "nanos": (micros - seconds * 1_000_000) * 1000}
