"""Schemas as a pipeline file gives them: Spark's DDL, or the name of a file."""

from __future__ import annotations

import json

from pyspark.errors import ParseException
from pyspark.sql.types import StructType

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.formats import Format


def read_schema_file(context: Context, form: Format) -> str:
    """The text of a schema file."""
    path = context.path(form.schema)
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as fault:
        raise Problem(
            f"the schema file {path} cannot be read: {fault}",
            "Paths begin at the pipeline file's folder.",
            form.place,
        ) from fault


def columns_of(context: Context, form: Format) -> StructType:
    """The columns that a schema names: DDL, or a `.json` file that holds a Spark schema."""
    if not form.schema:
        raise Problem(
            f"{form.format} needs a schema, so that columns have the same types in every batch",
            "Give one, as in `schema: id long, at timestamp`, or a file that holds it.",
            form.place,
        )
    if form.schema.endswith(".json"):
        text = read_schema_file(context, form)
        try:
            return StructType.fromJson(json.loads(text))
        except (ValueError, KeyError, TypeError) as fault:
            raise Problem(
                f"{form.schema} does not hold a Spark schema: {fault}",
                "Write one with `frame.schema.json()`.",
                form.place,
            ) from fault
    try:
        parsed = StructType.fromDDL(form.schema)
        assert isinstance(parsed, StructType)
        return parsed
    except ParseException as fault:
        raise Problem(
            f"the schema {form.schema!r} cannot be read: {_first_line(str(fault))}",
            "It is a list of columns with Spark's types, as in `id long, at timestamp`.",
            form.place,
        ) from fault


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0]
