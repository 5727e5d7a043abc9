"""Rows to values of records."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.spec.formats import Format

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def payload_columns(rows: DataFrame) -> list[str]:
    """The columns that are data: all but those that describe the record."""
    return [name for name in rows.columns if not name.startswith("_")]


def encode(rows: DataFrame, form: Format, context: Context, subject: str = "") -> Column:
    """The value of each row's record, as bytes.

    A row whose columns are all null becomes a null value, a tombstone: what a source makes of a
    tombstone is turned back into one. `subject` is what a registry is to call the schema.
    """
    from pyspark.sql import functions as f

    names = payload_columns(rows)
    place = form.place if form.place.file else context.pipeline.place
    if not names:
        raise Problem(
            "there is nothing to write: the view has no columns but those that describe a record",
            "Select one of them under a name of its own, as in `_key AS id`.",
            place,
        )
    if form.format == "string":
        return _single(names, form, place).cast("string").cast("binary")
    if form.format == "binary":
        return _single(names, form, place).cast("binary")
    columns = [f.col(f"`{name}`") for name in names]
    value = _encode_row(rows.select(*columns), form, context, subject, place)
    if form.registry:
        value = f.concat(f.lit(_frame(context, form, subject)), value)
    return f.when(reduce(or_, (each.isNotNull() for each in columns)), value)


def _encode_row(
    payload: DataFrame, form: Format, context: Context, subject: str, place: Place
) -> Column:
    from pyspark.sql import functions as f

    packed = f.struct(*(f.col(f"`{name}`") for name in payload.columns))
    if form.format == "json":
        return f.to_json(packed).cast("binary")
    if form.format == "csv":
        return f.to_csv(packed, {"sep": form.delimiter}).cast("binary")
    if form.format == "avro":
        from penstock.pipeline.formats.avro import encode_avro

        return encode_avro(context, payload, form, subject)
    if form.format == "protobuf":
        from penstock.pipeline.formats.protobuf_encode import encode_protobuf

        return encode_protobuf(context, payload, form, subject)
    raise Problem(
        f"a record's value cannot be {form.format}: that is a format of whole files",
        "Known for records: string, binary, json, csv, avro, protobuf.",
        place,
    )


def _frame(context: Context, form: Format, subject: str) -> bytes:
    """What stands in front of every value: the number that the registry gave to the schema."""
    from penstock.pipeline.formats.framing import frame, message_path
    from penstock.pipeline.formats.registry import Registry, RegistryFailed

    registry = Registry(form.registry)
    try:
        if form.format == "avro":
            from penstock.pipeline.formats.avro import avro_schema

            return frame(registry.register(subject, "AVRO", avro_schema(context, form, subject)))
        if form.format == "protobuf" and form.schema.endswith(".proto"):
            from penstock.pipeline.formats.descriptors import descriptor_set, message_of, path_of
            from penstock.pipeline.formats.schema import read_schema_file

            number = registry.register(subject, "PROTOBUF", read_schema_file(context, form))
            message = message_of(descriptor_set(context, form, subject), form)
            return frame(number) + message_path(path_of(message))
    except RegistryFailed as fault:
        raise Problem(str(fault), "Is it running, and is `registry` right?", form.place) from fault
    raise Problem(
        f"{form.format} values cannot be registered with this schema",
        "Registries take Avro with an `.avsc` and Protobuf with a `.proto`.",
        form.place,
    )


def _single(names: list[str], form: Format, place: Place) -> Column:
    from pyspark.sql import functions as f

    if "value" in names:
        return f.col("value")
    if len(names) == 1:
        return f.col(f"`{names[0]}`")
    raise Problem(
        f"a {form.format} value is made of one column, and there are {len(names)}: "
        + ", ".join(names),
        "Call the one that is meant `value`, or write the row as json.",
        place,
    )
