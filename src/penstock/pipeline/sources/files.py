"""Files of lines as a source: those that grow, and those that are whole when they appear.

Text, JSON and CSV are taken apart by `lines`, so that each row knows its line and a bad one leaves
alone. Which files there are, growing ones know by `tails`; of whole ones Spark's own file source
keeps the list. Parquet and Avro have no lines: see `tables`.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING, cast

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources.intake import origin, take_in
from penstock.pipeline.spec.shapes import size_bytes
from penstock.pipeline.spec.sources import FileSource
from penstock.pipeline.views import ORIGIN, View

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]
    from pyspark.sql import Column, DataFrame

LINES = ("string", "binary", "json", "csv")
TABLES = ("parquet", "avro")
CONTENTS = "path string, modificationTime timestamp, length bigint, content binary"
"""What Spark tells of a file that it does not look into."""


def open_source(context: Context, name: str, spec: FileSource) -> View:
    """The rows of files, each with the file and, where there are lines, the line it comes from."""
    kind = spec.format.format
    if kind in TABLES:
        from penstock.pipeline.sources.tables import open_tables

        return open_tables(context, name, spec)
    if kind not in LINES:
        raise Problem(
            f"files cannot be read as {kind}",
            f"Known for files: {', '.join((*LINES, *TABLES))}.",
            spec.place,
        )
    lines = growing_lines(context, spec) if spec.growing else whole_lines(context, spec)
    return _view(context, name, spec, lines)


def _view(context: Context, name: str, spec: FileSource, lines: DataFrame) -> View:
    from pyspark.sql import functions as f

    from penstock.pipeline.formats.decode import decode

    if spec.format.header:
        lines = lines.where((f.col("_line") > 1) | ~_is_header(context, spec))
    if spec.format.format in ("json", "csv"):
        # An empty line between two records, or at the end, is no record.
        lines = lines.where(f.trim(f.col("value").cast("string")) != "")
    at = {"file": f.col("_file"), "line": f.col("_line"), "value": f.col("value")}
    raw = lines.withColumn(ORIGIN, origin(name, **at))
    value = decode(context, f.col("value"), spec.format)
    if spec.format.header:
        other = f.when(f.col("_line") == 1, "the header names other columns than the schema")
        given = value.reason_of
        value = replace(value, reason_of=lambda parsed: f.coalesce(other, given(parsed)))
    kept = {"_file": f.col("_file"), "_line": f.col("_line")}
    return take_in(context, name, raw, {"": value}, kept, spec)


def _is_header(context: Context, spec: FileSource) -> Column:
    """Whether a line names the columns of the schema, in their order."""
    from pyspark.sql import functions as f

    from penstock.pipeline.formats.schema import columns_of

    expected = spec.format.delimiter.join(columns_of(context, spec.format).fieldNames())
    bare = f.regexp_replace(f.col("value").cast("string"), r'["\s]', "")
    return f.lower(bare) == re.sub(r"\s", "", expected).lower()


def growing_lines(context: Context, spec: FileSource) -> DataFrame:
    """The lines of files that are still written to."""
    from penstock.pipeline.sources.growing import NAME, GrowingFiles

    path = context.path(spec.files)
    if "://" in path:
        raise Problem(
            f"{spec.files} cannot be followed as it grows",
            "Growing files stand in a folder of this machine that every executor has too.",
            spec.place,
        )
    context.spark.dataSource.register(GrowingFiles)
    # Spark asks a Python source once for all there is now: its only batch must hold all of it.
    limit = 0 if context.pipeline.trigger.available_now else size_bytes(spec.batch_bytes_max)
    options = {"files": path, "bytes_max": str(limit), "data_loss": spec.data_loss}
    return context.spark.readStream.format(NAME).options(**{**options, **spec.options}).load()


def whole_lines(context: Context, spec: FileSource) -> DataFrame:
    """The lines of files that are whole when they appear."""
    from pyspark.sql.types import StructType

    from penstock.pipeline.sources.lines import LINES_TYPE
    from penstock.pipeline.sources.tables import watch_files

    found = watch_files(context, spec, "binaryFile", StructType.fromDDL(CONTENTS))
    if "://" in context.path(spec.files):
        return found.select("path", "content").mapInArrow(_split_contents, LINES_TYPE)
    # Files of this machine are read in blocks: Spark names them, and leaves their contents alone.
    return found.select("path").mapInArrow(_split_files, LINES_TYPE)


def _split_files(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    from penstock.pipeline.sources.lines import read_lines

    for batch in batches:
        for given in batch.column(0).to_pylist():
            path = local_path(given)
            with _unpacked(open(path, "rb"), path) as file:
                yield from read_lines(file, path, 1)


def _split_contents(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    from penstock.pipeline.sources.lines import read_lines

    for batch in batches:
        for path, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield from read_lines(_unpacked(io.BytesIO(content), path), path, 1)


def _unpacked(file: IO[bytes], path: str) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=file)) if path.endswith(".gz") else file


def local_path(given: str) -> str:
    """A path as this machine writes it, of one as Spark does: `file:/var/log/a`."""
    return "/" + given.removeprefix("file:").lstrip("/")
