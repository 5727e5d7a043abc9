"""A table of Iceberg, exactly once: see `iceberg_progress` for how a batch is recognised."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks.iceberg_catalog import catalog_settings, table_name
from penstock.pipeline.sinks.iceberg_progress import BATCH, WRITER, Progress
from penstock.pipeline.sinks.iceberg_statements import create_table, merge_into, storable
from penstock.pipeline.sinks.lake_causes import causes
from penstock.pipeline.sinks.lake_rows import (
    check_columns,
    check_expressions,
    check_types,
    newest,
    quoted,
    shown,
)
from penstock.pipeline.sinks.lake_schema import merge, nullable
from penstock.pipeline.spec.sinks import IcebergSink
from penstock.pipeline.steps.refusal import told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

SNAPSHOT_OPTION = "snapshot-property."
SNAPSHOT_SETTING = "spark.sql.iceberg.snapshot-property."
"""How the words of a snapshot are given: to a write, and to an SQL statement."""


def open_sink(context: Context, name: str, spec: IcebergSink) -> OpenIceberg:
    """The sink of this name; its catalog is known to Spark afterwards."""
    if spec.mode == "upsert" and not spec.key:
        raise Problem("mode: upsert has to know which rows are the same", "Give `key`.", spec.place)
    for setting, value in catalog_settings(context.pipeline, name, spec).items():
        context.spark.conf.set(setting, value)
    return OpenIceberg(context, name, spec)


class OpenIceberg:
    """One table, as one pipeline writes to it."""

    def __init__(self, context: Context, name: str, spec: IcebergSink) -> None:
        self._spark = context.spark
        self._name = name
        self._spec = spec
        self._table = table_name(context.spark, name, spec)
        self._writer = context.writer(name)
        family = self._writer.removesuffix(context.checkpoint.id)
        self._progress = Progress(context.spark, self._table, self._writer, family)
        self._last: int | None = None

    def prepare(self, rows: DataFrame) -> None:
        """Make the table if it is missing; add columns that are new."""
        check_types(rows.schema, self._spec.place)
        check_columns(rows, self._spec.key, "key", self._spec.place)
        check_expressions(rows, [self._spec.order_by, self._spec.delete_when], self._spec.place)
        wanted = storable(nullable(_chosen(rows).schema))
        with told(self._spec.place, columns=rows.columns), self._told():
            if self._spark.catalog.tableExists(self._table):
                self._evolve(wanted)
            else:
                for statement in create_table(self._spark, self._table, wanted, self._spec):
                    self._spark.sql(statement)
            self._last = self._progress.last()

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Commit the batch and its number in one snapshot."""
        with self._told():
            last = self._progress.last() if self._last is None else self._last
            if batch_id <= last:
                return
            # Until the commit is known to have succeeded nothing is known.
            self._last = None
            if self._spec.mode == "append":
                self._append(batch, batch_id)
            else:
                self._upsert(batch, batch_id)
            self._progress.note(batch_id)
            self._last = batch_id

    def _append(self, batch: DataFrame, batch_id: int) -> None:
        writer = _chosen(batch).writeTo(self._table).option("accept-any-schema", "false")
        for key, value in self._words(batch_id).items():
            writer = writer.option(SNAPSHOT_OPTION + key, value)
        writer.append()

    def _upsert(self, batch: DataFrame, batch_id: int) -> None:
        session: Any = batch.sparkSession
        view = f"penstock_batch_{self._name.replace('-', '_')}"
        newest(batch, self._spec.key, self._spec.order_by).createOrReplaceTempView(view)
        words = self._words(batch_id)
        for key, value in words.items():
            session.conf.set(SNAPSHOT_SETTING + key, value)
        try:
            session.sql(
                merge_into(
                    self._table, view, shown(batch.columns), self._spec.key, self._spec.delete_when
                )
            )
        finally:
            for key in words:
                session.conf.unset(SNAPSHOT_SETTING + key)
            session.catalog.dropTempView(view)

    def _words(self, batch_id: int) -> dict[str, str]:
        return {WRITER: self._writer, BATCH: str(batch_id)}

    def _evolve(self, wanted: StructType) -> None:
        known = nullable(self._spark.table(self._table).schema)
        merged = merge(known, wanted, self._table, self._spec.place)
        for added in merged.fields[len(known.fields) :]:
            self._spark.sql(
                f"ALTER TABLE {self._table} ADD COLUMN {quoted(added.name)} "
                f"{added.dataType.simpleString()}"
            )

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tell in plain words what Iceberg refuses."""
        try:
            yield
        except Problem:
            raise
        except Exception as failure:
            said = _iceberg_says(failure)
            if said is None:
                raise
            raise Problem(
                f"{self._table}: {said}",
                "The batch was not committed, or is recognised when it is written again.",
                self._spec.place,
            ) from failure


def _chosen(rows: DataFrame) -> DataFrame:
    return rows.select(*(quoted(name) for name in shown(rows.columns)))


def _iceberg_says(failure: Exception) -> str | None:
    for thrown in causes(failure):
        name = str(thrown.getClass().getName())
        if name.startswith("org.apache.iceberg.exceptions."):
            return f"{name.rpartition('.')[2]}: {thrown.getMessage()}".partition("\n")[0]
    return None
