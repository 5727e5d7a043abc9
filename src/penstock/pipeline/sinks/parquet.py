"""Files in a lake, exactly once: see `lake_publication` for how."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks import lake_schema
from penstock.pipeline.sinks.lake_causes import causes, is_a
from penstock.pipeline.sinks.lake_folders import Folder, read_folders
from penstock.pipeline.sinks.lake_layout import Written, arrange, next_layout
from penstock.pipeline.sinks.lake_path import lake_path
from penstock.pipeline.sinks.lake_publication import (
    Manifest,
    Publication,
    file_name,
    publications,
)
from penstock.pipeline.sinks.lake_rows import check_expressions, check_types, quoted, shown
from penstock.pipeline.sinks.lake_swap import recover_compaction
from penstock.pipeline.spec.shapes import size_bytes
from penstock.pipeline.spec.sinks import ParquetSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUFFIX = ".parquet"
DISK_WORDS = ("No space left", "Disk quota", "Permission denied", "Read-only file system")
TIMES = "spark.sql.parquet.outputTimestampType"


def open_sink(context: Context, name: str, spec: ParquetSink) -> OpenParquet:
    """The sink of this name; nothing is touched yet."""
    return OpenParquet(context, name, spec)


class OpenParquet:
    """One lake, as one pipeline writes to it."""

    def __init__(self, context: Context, name: str, spec: ParquetSink) -> None:
        self._context = context
        self._place = spec.place
        self._spec = spec
        self._lake = lake_path(context.pipeline, spec)
        self._family = file_name(context.writer(name).removesuffix(context.checkpoint.id))
        self._publication = Publication(self._lake, context.writer(name))
        self._file_bytes = size_bytes(spec.file_bytes)
        self._folders: tuple[Folder, ...] = ()
        self._schema: lake_schema.LakeSchema | None = None
        self._last: Written | None = None

    def prepare(self, rows: DataFrame) -> None:
        """Finish what was interrupted, and see that the rows fit what is there."""
        check_types(rows.schema, self._place)
        try:
            self._publication.prepare()
            # The same sink under a checkpoint that was given up since: its batches count too.
            for other in publications(self._lake):
                if other.writer.startswith(self._family):
                    other.finish_all()
            recover_compaction(self._lake)
            self._note_schema(rows)
        except OSError as failure:
            raise self._problem(failure) from failure

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Stage the batch's files and publish them; one that counts already is only finished."""
        try:
            if batch_id <= self._publication.last():
                self._publication.finish_all()
                return
            attempt = self._publication.new_attempt(batch_id)
            if manifest := self._staged(batch, batch_id, attempt):
                self._publication.publish(manifest)
        except OSError as failure:
            raise self._problem(failure) from failure
        except Exception as failure:
            if (said := _disk_says(failure)) is None:
                raise
            raise self._problem(OSError(said)) from failure

    def _note_schema(self, rows: DataFrame) -> None:
        self._folders = read_folders(self._spec.partition_by, rows.schema, self._place)
        check_expressions(rows, [folder.expression for folder in self._folders], self._place)
        names = [folder.name for folder in self._folders]
        written = rows.select(*(quoted(c) for c in shown(rows.columns) if c not in names))
        self._schema = lake_schema.remember(self._lake, written.schema, names, self._place)

    def _staged(self, batch: DataFrame, batch_id: int, attempt: str) -> Manifest | None:
        """Write the batch's files where nobody looks; where they are to go, if there are any."""
        manifest = None
        try:
            rows = self._stage(batch, attempt)
            manifest = self._manifest(batch_id, list(_read_files(attempt)), rows)
        finally:
            if manifest is None:
                self._publication.give_up(attempt)
        return manifest

    def _manifest(self, batch_id: int, staged: list[StagedFile], rows: int) -> Manifest | None:
        found = sum(file.rows for file in staged)
        if found != rows:
            raise Problem(
                f"batch {batch_id} has {rows} rows, but its files in {self._lake} have {found}",
                "If executors run on other machines, the folder has to be one that all of them "
                "and the driver share; nothing was published.",
                self._place,
            )
        full = [file for file in staged if file.rows]
        if not full:
            return None
        folders = {os.path.dirname(file.path) for file in full}
        size = sum(file.bytes for file in full)
        self._last = Written(rows, size, len(full), len(folders))
        suffix = f".{self._spec.compression}{SUFFIX}"
        moves = self._publication.plan(batch_id, [file.path for file in full], suffix=suffix)
        return Manifest(batch_id, moves, rows, size)

    def _stage(self, batch: DataFrame, attempt: str) -> int:
        """Let Spark write the rows to the attempt's folder; how many there were."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        session = batch.sparkSession
        if TIMES not in self._context.pipeline.spark:
            # Spark's own choice, INT96, is one that other readers have given up.
            session.conf.set(TIMES, "TIMESTAMP_MICROS")
        layout = next_layout(self._last, self._file_bytes)
        names = [folder.name for folder in self._folders]
        counted = Observation()
        rows = arrange(self._fit(batch), layout, names).observe(
            counted, F.count(F.lit(1)).alias("rows")
        )
        writer = rows.write.option("compression", self._spec.compression)
        if layout.file_rows_max:
            writer = writer.option("maxRecordsPerFile", layout.file_rows_max)
        writer.partitionBy(*names).parquet(f"file://{attempt}")
        return int(counted.get["rows"])

    def _fit(self, batch: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        assert self._schema is not None, "prepare comes first"
        values = [F.expr(folder.expression).alias(folder.name) for folder in self._folders]
        return batch.select(*self._schema.chosen(batch.columns), *values)

    def _problem(self, failure: OSError) -> Problem:
        return Problem(
            f"{self._lake} could not be written: {failure.strerror or failure}",
            "Make room, or see who may write there; the batch is written again from its start.",
            self._place,
        )


def _disk_says(failure: Exception) -> str | None:
    """What the disk refused to a task of Spark's. A source has IOExceptions of its own."""
    for thrown in causes(failure):
        said = str(thrown.getMessage())
        if is_a(thrown, "java.io.IOException") and any(word in said for word in DISK_WORDS):
            return said
    return None


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that Spark wrote, as its own footer describes it."""

    path: str
    rows: int
    bytes: int


def _read_files(attempt: str) -> Iterator[StagedFile]:
    from pyarrow.parquet import read_metadata  # type: ignore[import-untyped]

    for folder, _, names in os.walk(attempt):
        for name in names:
            if name.endswith(SUFFIX):
                path = os.path.join(folder, name)
                yield StagedFile(path, read_metadata(path).num_rows, os.path.getsize(path))
