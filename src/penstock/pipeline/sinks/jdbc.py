"""A table of a database, exactly once.

Executors write a batch to a table of its own, the stage. One transaction on the driver then merges
the stage into the table and notes the batch's number beside it: both count, or neither. A batch
that is written again finds its number, and is left alone.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks.jdbc_connection import Connection, Database, redacted
from penstock.pipeline.sinks.jdbc_statements import ROW, Statements, stage_prefix
from penstock.pipeline.sinks.lake_rows import (
    check_columns,
    check_expressions,
    check_types,
    newest,
    quoted,
    shown,
)
from penstock.pipeline.spec.sinks import JdbcSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POSTGRESQL = "PostgreSQL"
STAGING_TRIES_MAX = 3
SPARK_OPTIONS = {"batchsize": "5000", "numPartitions": "8"}
"""Spark's own: rows in a statement, connections at once."""

POSTGRESQL_PROPERTIES = {
    "reWriteBatchedInserts": "true",
    # Texts go into columns of json, uuid, inet and the like as they are.
    "stringtype": "unspecified",
    "ApplicationName": "penstock",
}


def open_sink(context: Context, name: str, spec: JdbcSink) -> OpenJdbc:
    """The sink of this name; no connection is made yet."""
    return OpenJdbc(context, name, spec)


class OpenJdbc:
    """One table, as one pipeline writes to it."""

    def __init__(self, context: Context, name: str, spec: JdbcSink) -> None:
        self._spec = spec
        self._place = spec.place
        self._writer = context.writer(name)
        self._database = Database(context.spark, spec.jdbc, _properties(spec), self._place)
        self._statements: Statements | None = None

    def prepare(self, rows: DataFrame) -> None:
        """Make the tables that are missing, and see that the rows fit the one that is there."""
        check_types(rows.schema, self._place)
        check_columns(rows, self._spec.key, "key", self._place)
        check_expressions(rows, [self._spec.order_by], self._place)
        with self._database.connect() as connection:
            columns = connection.columns(self._spec.table)
            if columns is None:
                self._create(connection, rows)
                connection.commit()
            else:
                self._check(columns, rows)
            self._statements = self._statements_for(connection, rows)
            self._remember(connection)
            connection.commit()
            if self._statements.postgresql:
                # Whether the key can be merged by is known before there is a batch.
                for statement in self._statements.merge(self._spec.table):
                    connection.rows(f"EXPLAIN {statement}")
            for stage in connection.tables(stage_prefix(self._writer)):
                connection.execute(f"DROP TABLE {stage}")
            connection.commit()

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Stage the batch, then merge it in one transaction with its number."""
        with self._database.connect() as connection:
            if self._last(connection) >= batch_id:
                return
        stage = self._stage(batch, batch_id)
        try:
            with self._database.connect() as connection:
                self._merge(connection, stage, batch_id)
        finally:
            self._drop(stage)

    def _stage(self, batch: DataFrame, batch_id: int) -> str:
        """Have executors write the batch to a table of its own; its name."""
        assert self._statements is not None, "prepare comes first"
        rows = self._chosen(batch)
        for _ in range(STAGING_TRIES_MAX):
            stage = self._try_stage(rows, batch_id)
            with self._database.connect() as connection:
                [(twice,)] = connection.rows(self._statements.twice(stage))
            if twice == 0:
                return stage
            self._drop(stage)
        raise Problem(
            f"{twice} rows of batch {batch_id} were staged twice, time and again",
            "Tasks seem to be run twice: turn spark.speculation off. Nothing was merged.",
            self._place,
        )

    def _try_stage(self, rows: DataFrame, batch_id: int) -> str:
        assert self._statements is not None, "prepare comes first"
        stage = self._statements.stage_name(self._writer, batch_id)
        with self._database.connect() as connection:
            connection.execute(self._statements.create_stage(stage))
            connection.commit()
        options = {**SPARK_OPTIONS, **self._spec.options}
        with self._database.told():
            rows.write.options(**options).mode("append").jdbc(
                self._spec.jdbc, stage, properties=self._database.for_spark()
            )
        return stage

    def _chosen(self, batch: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        assert self._statements is not None, "prepare comes first"
        rows = newest(batch, self._spec.key, self._spec.order_by) if self._spec.key else batch
        columns = [F.col(quoted(name)) for name in self._statements.columns]
        return rows.select(*columns, F.monotonically_increasing_id().alias(ROW))

    def _merge(self, connection: Connection, stage: str, batch_id: int) -> None:
        assert self._statements is not None, "prepare comes first"
        batches = self._statements.batches
        # Whoever else writes as us, a driver thought dead perhaps, waits here or is waited for.
        connection.execute(f"UPDATE {batches} SET batch = batch WHERE writer = ?", self._writer)
        if self._last(connection) >= batch_id:
            return
        for statement in self._statements.merge(stage):
            connection.execute(statement)
        connection.execute(
            f"UPDATE {batches} SET batch = ?, written_at = CURRENT_TIMESTAMP WHERE writer = ?",
            batch_id,
            self._writer,
        )
        connection.commit()

    def _drop(self, stage: str) -> None:
        # A stage that stays, because the database is gone, is dropped at the next start.
        with contextlib.suppress(Problem), self._database.connect() as connection:
            connection.execute(f"DROP TABLE {stage}")
            connection.commit()

    def _last(self, connection: Connection) -> int:
        assert self._statements is not None, "prepare comes first"
        found = connection.rows(
            f"SELECT batch FROM {self._statements.batches} WHERE writer = ?", self._writer
        )
        return int(found[0][0])

    def _remember(self, connection: Connection) -> None:
        """Have a place for this writer's number."""
        assert self._statements is not None
        batches = self._statements.batches
        if connection.columns(batches) is None:
            connection.execute(self._statements.create_batches())
        known = connection.rows(f"SELECT batch FROM {batches} WHERE writer = ?", self._writer)
        if not known:
            connection.execute(
                f"INSERT INTO {batches} (writer, batch, written_at) "
                "VALUES (?, -1, CURRENT_TIMESTAMP)",
                self._writer,
            )

    def _create(self, connection: Connection, rows: DataFrame) -> None:
        """Make the table with the types that Spark chooses for this database."""
        chosen = rows.sparkSession.createDataFrame(
            [], rows.select(*(quoted(name) for name in shown(rows.columns))).schema
        )
        with self._database.told():
            chosen.write.mode("ignore").jdbc(
                self._spec.jdbc, self._spec.table, properties=self._database.for_spark()
            )
        if self._spec.key:
            statements = self._statements_for(connection, rows)
            key = statements.listed(self._spec.key)
            connection.execute(f"ALTER TABLE {self._spec.table} ADD PRIMARY KEY ({key})")

    def _check(self, columns: list[str], rows: DataFrame) -> None:
        missing = [name for name in shown(rows.columns) if name not in columns]
        if missing:
            kinds = {each.name: each.dataType.simpleString() for each in rows.schema}
            raise Problem(
                f"{self._spec.table} at {redacted(self._spec.jdbc)} has no column "
                + ", ".join(f"{name!r} (here {kinds[name]})" for name in missing),
                "Add it (ALTER TABLE ... ADD COLUMN), or leave it out with a select step.",
                self._place,
            )

    def _statements_for(self, connection: Connection, rows: DataFrame) -> Statements:
        return Statements(
            self._spec.table,
            tuple(shown(rows.columns)),
            tuple(self._spec.key),
            connection.quote,
            connection.product == POSTGRESQL,
        )


def _properties(spec: JdbcSink) -> dict[str, str]:
    properties = dict(POSTGRESQL_PROPERTIES) if ":postgresql:" in spec.jdbc else {}
    if spec.user:
        properties["user"] = spec.user
    if spec.password:
        properties["password"] = spec.password
    return {**properties, **spec.options}
