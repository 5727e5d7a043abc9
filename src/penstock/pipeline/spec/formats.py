"""How the bytes of a record or a file are to be understood."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.pipeline.spec.entries import ANYTHING, Placed, Shape, entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(Placed):
    """A format, given as its name alone or with its options."""

    format: str = entry(
        "How bytes become columns.",
        default="string",
        choices=("string", "binary", "json", "csv", "avro", "protobuf", "parquet"),
        alone=ANYTHING,
    )
    schema: str = entry(
        "The schema: Spark's DDL (`id long, at timestamp`) for JSON and CSV, or a file: `.avsc`, "
        "`.proto`, `.desc`, or a `.json` that holds a Spark schema.",
        default="",
        example="id long, amount decimal(10,2), at timestamp",
        shape=Shape.SCHEMA,
    )
    message: str = entry("The message of the schema file to use, for Protobuf.", default="")
    registry: str = entry(
        "The address of a schema registry: payloads begin with its five bytes, and the schema is "
        "looked up by the number in them.",
        default="",
    )
    framed: bool = entry(
        "Whether payloads begin with a registry's five bytes, which are then skipped and checked "
        "against the schema given here.",
        default=False,
    )
    delimiter: str = entry("What separates columns, for CSV.", default=",")
    header: bool = entry("Whether the first line of a CSV file names its columns.", default=False)


STRING = Format()
"""Text, as it is."""

BINARY = Format(format="binary")
"""Bytes, as they are."""
