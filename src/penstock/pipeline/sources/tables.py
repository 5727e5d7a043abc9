"""Files with columns of their own, Parquet and Avro, through Spark's own file source.

Such a file is read as a whole or not at all: one that is damaged stops the pipeline, whatever
`on_error` says, since nobody knows how many rows were in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources.intake import origin, with_watermark
from penstock.pipeline.spec.shapes import size_bytes
from penstock.pipeline.spec.sources import FileSource
from penstock.pipeline.views import ORIGIN, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


def open_tables(context: Context, name: str, spec: FileSource) -> View:
    """The rows of files, each with the file that it comes from."""
    from pyspark.sql import functions as f

    if spec.growing:
        raise Problem(
            f"{spec.format.format} files do not grow: they are whole when they are closed",
            "Leave out `growing`.",
            spec.place,
        )
    read = watch_files(context, spec, spec.format.format, _schema(context, spec))
    file = f.regexp_replace("_metadata.file_path", "^file:/+", "/")
    rows = read.select("*", file.alias("_file"), origin(name, file=file).alias(ORIGIN))
    return View(with_watermark(rows, spec.watermark, spec.place))


def watch_files(context: Context, spec: FileSource, kind: str, schema: DataType) -> DataFrame:
    """What Spark reads of the files that are there and of those that will come."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    options = {"maxBytesPerTrigger": str(size_bytes(spec.batch_bytes_max)), **spec.options}
    assert isinstance(schema, StructType)
    reader = context.spark.readStream.format(kind).options(**options).schema(schema)
    try:
        return reader.load(context.path(spec.files))
    except AnalysisException as fault:
        if fault.getCondition() != "PATH_NOT_FOUND":
            raise
        raise Problem(
            f"{context.path(spec.files)} does not exist",
            "Paths begin at the pipeline file's folder; an empty folder will do.",
            spec.place,
        ) from fault


def _schema(context: Context, spec: FileSource) -> StructType:
    """The columns: as the file says, or as the files that are there already have them."""
    from pyspark.errors import AnalysisException

    from penstock.pipeline.formats.schema import columns_of

    form = spec.format
    if form.schema.endswith(".avsc"):
        from penstock.pipeline.formats.avro import columns_of_avro

        return columns_of_avro(context, form)
    if form.schema:
        return columns_of(context, form)
    try:
        return context.spark.read.format(form.format).load(context.path(spec.files)).schema
    except AnalysisException as fault:
        raise Problem(
            f"there is no file at {context.path(spec.files)} yet, so its columns are not known",
            "Give a schema, as in `schema: id long, at timestamp`, or put a first file there.",
            spec.place,
        ) from fault
