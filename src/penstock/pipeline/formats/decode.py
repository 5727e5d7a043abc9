"""Values of records to columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decoded import Decoded
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format

if TYPE_CHECKING:
    from pyspark.sql import Column


def decode(context: Context, raw: Column, form: Format) -> Decoded:
    """How to read the binary column `raw` as this format says."""
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
        context.pipeline.place,
    )
