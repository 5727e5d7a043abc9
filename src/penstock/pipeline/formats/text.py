"""Values that are text, or just bytes."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType

from penstock.pipeline.formats.decoded import Decoded, itself

NOT_TEXT = "it is not UTF-8"


def decode_string(raw: Column) -> Decoded:
    """Text. Bytes that are not UTF-8 are an error: nothing is replaced in silence."""
    text = raw.cast("string")
    return Decoded(
        text, itself, lambda parsed: f.when(~f.is_valid_utf8(parsed), NOT_TEXT), StringType()
    )


def decode_binary(raw: Column) -> Decoded:
    """Bytes, as they are: nothing can be wrong with them."""
    return Decoded(raw, itself, lambda _: f.lit(None).cast("string"), BinaryType())
