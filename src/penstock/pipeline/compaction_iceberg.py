"""Compaction of Iceberg's tables, by its own procedures, in a Spark session of its own."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.pipeline.compaction import Gain
from penstock.pipeline.sinks.iceberg_catalog import iceberg_settings, table_name
from penstock.pipeline.sinks.iceberg_progress import remember_all
from penstock.pipeline.spark.session import open_session
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.sinks import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOST_SECONDS = 3 * 86_400.0
"""A file that no snapshot knows may be one that is being written: it is lost only when so old."""


def compact_sink(
    pipeline: Pipeline,
    name: str,
    spec: IcebergSink,
    *,
    target: int,
    expire: float,
    dry_run: bool,
) -> Gain:
    """Compact the table that a sink writes to."""
    spark = open_session(
        f"{pipeline.name}-compact",
        settings={**iceberg_settings(pipeline), **pipeline.spark},
        needs=frozenset({"iceberg"}),
    )
    try:
        table = table_name(spark, name, spec)
        if dry_run:
            return expected(spark, table, target)
        return compact_table(spark, table, target=target, expire=expire)
    finally:
        spark.stop()


def expected(spark: SparkSession, table: str, target: int) -> Gain:
    """About what joining the small files of each partition would give."""
    files, size = _files(spark, table)
    # A table without partitions has no such column.
    apart = [
        name for name in ("spec_id", "partition") if name in spark.table(f"{table}.files").columns
    ]
    small = spark.sql(
        f"SELECT count(*), ceil(sum(file_size_in_bytes) / {target}) FROM {table}.files "
        f"WHERE file_size_in_bytes < {target} * 0.75 "
        f"GROUP BY {', '.join(apart)} HAVING count(*) > 1"
    ).collect()
    fewer = sum(int(count) - int(after) for count, after in small)
    return Gain(files, files - fewer, size, size)


def compact_table(spark: SparkSession, table: str, *, target: int, expire: float) -> Gain:
    """Join small files, forget snapshots older than `expire` seconds, remove lost files."""
    catalog, _, name = table.partition(".")
    files, size = _files(spark, table)
    spark.sql(
        f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => "
        f"map('target-file-size-bytes', '{target}', 'min-input-files', '2'))"
    )
    # A batch is recognised by its snapshot: its number has to stay when that goes.
    remember_all(spark, table)
    spark.sql(
        f"CALL {catalog}.system.expire_snapshots(table => '{name}', retain_last => 1, "
        f"older_than => {_ago(expire)})"
    )
    spark.sql(
        f"CALL {catalog}.system.remove_orphan_files(table => '{name}', "
        f"older_than => {_ago(LOST_SECONDS)})"
    )
    files_after, size_after = _files(spark, table)
    return Gain(files, files_after, size, size_after)


def _ago(seconds: float) -> str:
    # To the millisecond, as snapshots are: what was made in this second is past, too.
    then = datetime.fromtimestamp(time.time() - seconds, UTC)
    return f"TIMESTAMP '{then:%Y-%m-%d %H:%M:%S}.{then.microsecond // 1000:03} UTC'"


def _files(spark: SparkSession, table: str) -> tuple[int, int]:
    spark.sql(f"REFRESH TABLE {table}")
    row = spark.sql(
        f"SELECT count(*), coalesce(sum(file_size_in_bytes), 0) FROM {table}.files"
    ).collect()[0]
    return int(row[0]), int(row[1])
