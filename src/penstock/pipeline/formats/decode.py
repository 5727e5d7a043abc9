"""Values of records to columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decoded import Decoded
from penstock.pipeline.formats.framing import unframe
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format

if TYPE_CHECKING:
    from pyspark.sql import Column


def decode(context: Context, raw: Column, form: Format, subject: str = "") -> Decoded:
    """How to read the binary column `raw` as this format says.

    `subject` is what a schema registry calls the schema of these values, where that is known.
    """
    if form.format == "avro":
        from penstock.pipeline.formats.avro import decode_avro

        return decode_avro(context, raw, form, subject)
    if form.format == "protobuf":
        from penstock.pipeline.formats.protobuf import decode_protobuf

        return decode_protobuf(context, raw, form, subject)
    if not (form.framed or form.registry):
        return _decode_plain(context, raw, form)
    from pyspark.sql import functions as f

    payload, fault = unframe(raw)
    plain = _decode_plain(context, payload, form)
    return replace(plain, reason_of=lambda parsed: f.coalesce(fault, plain.reason_of(parsed)))


def _decode_plain(context: Context, raw: Column, form: Format) -> Decoded:
    from penstock.pipeline.formats import delimited, json, text

    if form.format == "string":
        return text.decode_string(raw)
    if form.format == "binary":
        return text.decode_binary(raw)
    if form.format == "json":
        return json.decode_json(context, raw, form)
    if form.format == "csv":
        return delimited.decode_csv(context, raw, form)
    raise Problem(
        f"a record's bytes cannot be {form.format}: that is a format of whole files",
        "Known for records: string, binary, json, csv, avro, protobuf.",
        form.place,
    )
