"""Values that are Avro: a schema file's, or those of a schema registry.

Spark's own Avro reader makes the columns. It answers to bytes that it cannot read with a row of
nulls, which a good record may be as well; so it is asked for one field more, which the reader's
schema has and the writer's has not: its default is there unless reading failed.

What a registry's clients write may follow any version of the schema. A Python worker looks up the
one that a value was written with, and writes the value anew in the reader's schema where the two
differ; Spark reads just that one.
"""

from __future__ import annotations

import io
import json
import time
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, StructType

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decoded import Decoded
from penstock.pipeline.formats.framing import FRAME_BYTES, NOT_FRAMED, frame_number, unframe
from penstock.pipeline.formats.registry import SCHEMAS_MAX, Registry, RegistryFailed
from penstock.pipeline.formats.schema import read_schema_file
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format

WITNESS = "_penstock_read"
MISSING_SECONDS = 5.0
"""How long a number that the registry does not know is not asked for again."""

RESOLVED_TYPE = "value binary, reason string"


def decode_avro(context: Context, raw: Column, form: Format, subject: str) -> Decoded:
    """One datum per value."""
    reader = avro_schema(context, form, subject)
    kind = _spark_type(context, reader)
    options = {"mode": "PERMISSIVE"}
    if isinstance(kind, StructType):
        options["avroSchema"] = _with_witness(reader)
    fault: Column = f.lit(None).cast("string")
    payload = raw
    if form.registry:
        resolved = _resolver(form.registry, reader)(raw)
        payload, fault = resolved["value"], resolved["reason"]
    elif form.framed:
        payload, fault = unframe(raw)
    # The payload and its fault come along: a Python worker is asked for them once.
    parsed = f.struct(
        from_avro(payload, reader, options).alias("value"),
        fault.alias("fault"),
        (f.octet_length(payload) == 0).alias("empty"),
    )

    def reason(parsed: Column) -> Column:
        value = parsed["value"]
        if isinstance(kind, StructType):
            unread = value.getField(WITNESS).isNull()
        else:
            unread = value.isNull() & f.lit(not _is_nullable(reader))
        unfit = f.when(parsed["empty"], "it is empty").otherwise("it is not Avro of this schema")
        return f.when(raw.isNotNull(), f.coalesce(parsed["fault"], f.when(unread, unfit)))

    return Decoded(parsed, lambda parsed: parsed["value"], reason, kind)


def encode_avro(context: Context, payload: DataFrame, form: Format, subject: str) -> Column:
    """The bytes of each row, as the schema says."""
    schema = avro_schema(context, form, subject)
    parsed = json.loads(schema)
    if isinstance(parsed, dict) and parsed.get("type") == "record":
        _check_columns(payload.columns, parsed["fields"], form)
    return to_avro(f.struct(*(f.col(f"`{name}`") for name in payload.columns)), schema)


def _check_columns(columns: list[str], fields: list[dict[str, Any]], form: Format) -> None:
    known = [each["name"] for each in fields]
    for wrong, said in (
        ([name for name in columns if name not in known], "has no field"),
        ([name for name in known if name not in columns], "wants a field that is not there:"),
    ):
        if wrong:
            raise Problem(
                f"the Avro schema {said} {', '.join(map(repr, wrong))}",
                f"Its fields are {', '.join(known)}; the columns are {', '.join(columns)}.",
                form.place,
            )


def avro_schema(context: Context, form: Format, subject: str = "") -> str:
    """The schema that values are read with: the file's, or the newest of the registry."""
    if form.schema:
        text = read_schema_file(context, form)
        origin = form.schema
    elif form.registry:
        text, origin = _newest(form, subject)
    else:
        raise Problem(
            "avro needs a schema",
            "Give a file, as in `schema: order.avsc`, or a `registry`.",
            form.place,
        )
    try:
        import fastavro

        parsed = json.loads(text)
        fastavro.parse_schema(parsed)
    except Exception as fault:
        raise Problem(
            f"{origin} is not an Avro schema: {fault}", "See avro.apache.org.", form.place
        ) from fault
    return json.dumps(parsed)


def _newest(form: Format, subject: str) -> tuple[str, str]:
    if not subject:
        raise Problem(
            "which schema to read with is not known: several topics may have several",
            "Give the one that all values are to be read with, as in `schema: order.avsc`.",
            form.place,
        )
    try:
        found = Registry(form.registry).latest(subject)
    except RegistryFailed as fault:
        raise Problem(str(fault), "Is it running, and is `registry` right?", form.place) from fault
    if found is None or found.kind != "AVRO" or found.refers:
        raise Problem(
            f"the registry has no Avro schema for {subject!r} that stands on its own",
            "Give the one that values are to be read with, as in `schema: order.avsc`.",
            form.place,
        )
    return found.text, f"the registry's schema of {subject!r}"


def columns_of_avro(context: Context, form: Format) -> StructType:
    """The columns of a record of this schema."""
    kind = _spark_type(context, avro_schema(context, form))
    if not isinstance(kind, StructType):
        raise Problem(
            f"{form.schema} is not the schema of a record, so it has no columns", "", form.place
        )
    return kind


def _spark_type(context: Context, schema: str) -> DataType:
    empty = context.spark.range(0).select(from_avro(f.lit(b""), schema).alias("value"))
    return empty.schema["value"].dataType


def _with_witness(schema: str) -> str:
    record = json.loads(schema)
    witness = {"name": WITNESS, "type": "boolean", "default": True}
    return json.dumps({**record, "fields": [*record["fields"], witness]})


def _is_nullable(schema: str) -> bool:
    parsed = json.loads(schema)
    return parsed == "null" or (isinstance(parsed, list) and "null" in parsed)


def _resolver(url: str, reader: str) -> Any:
    """A function of framed values: their payload in the schema `reader`, or what is wrong."""

    @arrow_udf(RESOLVED_TYPE)  # type: ignore[call-overload]
    def resolve(values):  # type: ignore[no-untyped-def]
        import pyarrow as pa  # type: ignore[import-untyped]

        resolver = resolver_of(url, reader)
        done = [resolver.resolve(value) for value in values.to_pylist()]
        payloads = pa.array([payload for payload, _ in done], pa.binary())
        reasons = pa.array([reason for _, reason in done], pa.string())
        return pa.StructArray.from_arrays([payloads, reasons], ["value", "reason"])

    return resolve


@lru_cache(16)
def resolver_of(url: str, reader: str) -> Resolver:
    """The one of this process."""
    return Resolver(url, reader)


class Resolver:
    """Turns values of any registered schema into values of one schema."""

    def __init__(self, url: str, reader: str) -> None:
        import fastavro

        self._registry = Registry(url)
        self._reader = fastavro.parse_schema(json.loads(reader))
        self._canonical = fastavro.schema.to_parsing_canonical_form(self._reader)
        self._writers: dict[int, Any] = {}
        self._missing: dict[int, float] = {}

    def resolve(self, value: bytes | None) -> tuple[bytes | None, str | None]:
        """The payload in the reader's schema, or why there is none."""
        if value is None:
            return None, None
        number = frame_number(value)
        if number is None:
            return None, NOT_FRAMED
        writer = self._writers.get(number) or self._look_up(number)
        if writer is None:
            return None, f"the registry has no Avro schema {number}"
        if writer is self._reader:
            return value[FRAME_BYTES:], None
        return self._rewrite(value, number, writer)

    def _look_up(self, number: int) -> Any:
        import fastavro

        if time.monotonic() < self._missing.get(number, 0.0):
            return None
        found = self._registry.schema(number)
        if found is None or found.kind != "AVRO" or found.refers:
            self._missing[number] = time.monotonic() + MISSING_SECONDS
            return None
        parsed = fastavro.parse_schema(json.loads(found.text))
        same = fastavro.schema.to_parsing_canonical_form(parsed) == self._canonical
        if len(self._writers) >= SCHEMAS_MAX:
            self._writers.clear()
        self._writers[number] = self._reader if same else parsed
        return self._writers[number]

    def _rewrite(self, value: bytes, number: int, writer: Any) -> tuple[bytes | None, str | None]:
        import fastavro

        source = io.BytesIO(value)
        source.seek(FRAME_BYTES)
        try:
            datum = fastavro.schemaless_reader(source, writer, self._reader)
            target = io.BytesIO()
            fastavro.schemaless_writer(target, self._reader, datum)
        except fastavro.read.SchemaResolutionError as fault:
            return None, f"the registry's schema {number} does not fit the reader's: {fault}"
        except Exception:  # noqa: BLE001
            # Bad bytes end in whatever the library stumbles over, and its words help nobody.
            return None, f"it is not Avro of the registry's schema {number}"
        return target.getvalue(), None
