"""Values that are Protobuf messages.

They are parsed by Python workers with Google's library, column by column into Arrow. A field
without presence has its default when it was not set; one with presence (`optional`, a message, a
member of a `oneof`) is null. Fields that the schema does not know are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from google.protobuf import json_format  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decoded import Decoded
from penstock.pipeline.formats.descriptors import class_of, descriptor_set, message_of
from penstock.pipeline.formats.framing import message_path_end, unframe
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format

_T = FieldDescriptor
SCALARS: dict[int, DataType] = {
    _T.TYPE_INT32: IntegerType(),
    _T.TYPE_SINT32: IntegerType(),
    _T.TYPE_SFIXED32: IntegerType(),
    _T.TYPE_UINT32: LongType(),
    _T.TYPE_FIXED32: LongType(),
    _T.TYPE_INT64: LongType(),
    _T.TYPE_SINT64: LongType(),
    _T.TYPE_SFIXED64: LongType(),
    _T.TYPE_UINT64: DecimalType(20, 0),
    _T.TYPE_FIXED64: DecimalType(20, 0),
    _T.TYPE_FLOAT: FloatType(),
    _T.TYPE_DOUBLE: DoubleType(),
    _T.TYPE_BOOL: BooleanType(),
    _T.TYPE_STRING: StringType(),
    _T.TYPE_BYTES: BinaryType(),
    _T.TYPE_ENUM: StringType(),
}
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in (
        "Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64",
    )
}  # fmt: skip
AS_JSON = {f"google.protobuf.{name}" for name in ("Any", "ListValue", "Struct", "Value")}
"""What has no shape of its own comes as the text of its JSON."""


def decode_protobuf(context: Context, raw: Column, form: Format, subject: str) -> Decoded:
    """One message per value."""
    files = descriptor_set(context, form, subject)
    message = message_of(files, form)
    columns = spark_type(message, form)
    payload, fault = raw, f.lit(None).cast("string")
    framed = bool(form.framed or form.registry)
    if framed:
        payload, fault = unframe(raw)
    parsed = _parser(files, message.full_name, columns, framed)(payload)
    return Decoded(
        parsed,
        lambda parsed: parsed["value"],
        lambda parsed: f.coalesce(fault, parsed["reason"]),
        columns,
    )


def spark_type(message: Descriptor, form: Format, above: tuple[str, ...] = ()) -> StructType:
    """The columns of a message."""
    if message.full_name in above:
        raise Problem(
            f"the message {message.full_name} holds itself, and columns have an end",
            "Read the value as binary and take it apart in a Python step.",
            form.place,
        )
    return StructType(
        [
            StructField(each.name, _field_type(each, form, (*above, message.full_name)))
            for each in message.fields
        ]
    )


def _field_type(field: FieldDescriptor, form: Format, above: tuple[str, ...]) -> DataType:
    if is_map(field):
        entry = field.message_type.fields_by_name
        key, value = (_one_type(entry[part], form, above) for part in ("key", "value"))
        return MapType(key, value)
    one = _one_type(field, form, above)
    return ArrayType(one) if field.is_repeated else one


def _one_type(field: FieldDescriptor, form: Format, above: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return SCALARS[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return TimestampType()
    if name == DURATION:
        return DayTimeIntervalType()
    if name in WRAPPERS:
        return SCALARS[field.message_type.fields_by_name["value"].type]
    if name in AS_JSON:
        return StringType()
    return spark_type(field.message_type, form, above)


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _parser(files: bytes, name: str, columns: StructType, framed: bool) -> Any:
    kind = StructType([StructField("value", columns), StructField("reason", StringType())])

    @arrow_udf(kind)  # type: ignore[call-overload]
    def parse(values):  # type: ignore[no-untyped-def]
        return parse_messages(values.to_pylist(), class_of(files, name), columns, framed)

    return parse


def parse_messages(
    values: Sequence[bytes | None], cls: Any, columns: StructType, framed: bool
) -> Any:
    """An Arrow array of messages, each with what is wrong with it."""
    messages, reasons = [], []
    for value in values:
        message, reason = _parse_one(value, cls, framed)
        messages.append(message)
        reasons.append(reason)
    value = _struct_array(messages, cls.DESCRIPTOR, columns)
    return pa.StructArray.from_arrays([value, pa.array(reasons, pa.string())], ["value", "reason"])


def _parse_one(value: bytes | None, cls: Any, framed: bool) -> tuple[Any, str | None]:
    if value is None:
        return None, None
    message = cls()
    try:
        message.ParseFromString(value[message_path_end(value) :] if framed else value)
    except (DecodeError, ValueError):
        return None, f"it is not a message {cls.DESCRIPTOR.full_name}"
    if not message.IsInitialized():
        missing = message.FindInitializationErrors()[0]
        return None, f"the field `{missing}` is missing"
    return message, None


def _struct_array(messages: Sequence[Any], message: Descriptor, columns: StructType) -> Any:
    children = [
        _field_array(messages, field, column.dataType)
        for field, column in zip(message.fields, columns, strict=True)
    ]
    fields = [
        pa.field(each.name, child.type) for each, child in zip(columns, children, strict=True)
    ]
    absent = pa.array([each is None for each in messages], pa.bool_())
    if not children:
        return pa.array([None if each is None else {} for each in messages], pa.struct([]))
    return pa.StructArray.from_arrays(children, fields=fields, mask=absent)


def _field_array(messages: Sequence[Any], field: FieldDescriptor, kind: DataType) -> Any:
    name = field.name
    if field.is_repeated:
        plain = [None if each is None else getattr(each, name) for each in messages]
        convert = _plain(field)
        return pa.array([convert(each) for each in plain], to_arrow_type(kind))
    if field.has_presence:
        values = [
            getattr(each, name) if each is not None and each.HasField(name) else None
            for each in messages
        ]
    else:
        values = [None if each is None else getattr(each, name) for each in messages]
    if isinstance(kind, StructType):
        return _struct_array(values, field.message_type, kind)
    convert = _plain(field)
    return pa.array([convert(each) for each in values], to_arrow_type(kind))


def _plain(field: FieldDescriptor) -> Callable[[Any], Any]:
    """A function from what the library gives to what Arrow takes; None stays None."""
    if is_map(field):
        entry = field.message_type.fields_by_name
        key, value = _plain_one(entry["key"]), _plain_one(entry["value"])
        return lambda got: None if got is None else [(key(k), value(v)) for k, v in got.items()]
    one = _plain_one(field)
    if field.is_repeated:
        return lambda got: None if got is None else [one(each) for each in got]
    return lambda got: None if got is None else one(got)


def _plain_one(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.type == _T.TYPE_ENUM:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda got: names.get(got) or str(got)
    if field.type in (_T.TYPE_UINT64, _T.TYPE_FIXED64):
        return Decimal
    if field.message_type is None:
        return lambda got: got
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return lambda got: got.ToDatetime(tzinfo=UTC)
    if name == DURATION:
        return lambda got: timedelta(seconds=got.seconds, microseconds=got.nanos // 1000)
    if name in WRAPPERS:
        inner = _plain_one(field.message_type.fields_by_name["value"])
        return lambda got: inner(got.value)
    if name in AS_JSON:
        return lambda got: json_format.MessageToJson(got, indent=None)
    return _plain_message(field.message_type)


def _plain_message(message: Descriptor) -> Callable[[Any], Any]:
    parts = [(each.name, each.has_presence, _plain(each)) for each in message.fields]

    def plain(got: Any) -> dict[str, Any]:
        return {
            name: None if presence and not got.HasField(name) else convert(getattr(got, name))
            for name, presence, convert in parts
        }

    return plain
