"""What a table of Iceberg remembers of its writers.

Every snapshot that a batch makes carries its writer and its number, in the same commit as the rows:
that is what counts. Snapshots are expired some day, so the number is then copied to the table's
properties, which are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITER, BATCH = "penstock.writer", "penstock.batch"
LAST = "penstock.last-batch."
"""The property, with the writer's name behind it."""

SNAPSHOTS_MAX = 10_000
"""So far back a writer's last snapshot is looked for."""


class Progress:
    """The last batch of one writer in one table."""

    def __init__(self, spark: SparkSession, table: str, writer: str, family: str) -> None:
        self._spark = spark
        self._table = table
        self._writer = writer
        self._family = family

    def last(self) -> int:
        """The newest batch that is in the table; -1 before the first."""
        table = self._load()
        noted = table.properties().get(LAST + self._writer)
        return max(-1 if noted is None else int(noted), self._in_snapshots(table))

    def note(self, batch: int) -> None:
        """Remember a batch beyond its snapshot's life; forget checkpoints that were given up."""
        table = self._load()
        change = table.updateProperties().set(LAST + self._writer, str(batch))
        for key in list(table.properties()):
            if key.startswith(LAST + self._family) and key != LAST + self._writer:
                change = change.remove(key)
        change.commit()

    def _in_snapshots(self, table: Any) -> int:
        return _last_batches(self._spark, table, only=self._writer).get(self._writer, -1)

    def _load(self) -> Any:
        return _load(self._spark, self._table)


def remember_all(spark: SparkSession, table: str) -> None:
    """Copy every writer's last number to the properties: snapshots are about to be expired."""
    loaded = _load(spark, table)
    known = dict(loaded.properties())
    change = None
    for writer, batch in _last_batches(spark, loaded).items():
        if batch > int(known.get(LAST + writer, -1)):
            change = (change or loaded.updateProperties()).set(LAST + writer, str(batch))
    if change is not None:
        change.commit()


def _last_batches(spark: SparkSession, table: Any, only: str = "") -> dict[str, int]:
    """The last batch of each writer, or of one, that a snapshot tells of."""
    jvm: Any = spark.sparkContext._jvm
    ancestors = jvm.org.apache.iceberg.util.SnapshotUtil.currentAncestors(table).iterator()
    found: dict[str, int] = {}
    for _ in range(SNAPSHOTS_MAX):
        if not ancestors.hasNext():
            break
        summary = ancestors.next().summary()
        writer = summary.get(WRITER)
        if writer is not None:
            # From the newest on: the first that is met is the last that was written.
            found.setdefault(str(writer), int(summary.get(BATCH)))
            if writer == only:
                break
    return found


def _load(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark.sparkContext._jvm
    session: Any = spark._jsparkSession
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, name)
    table.refresh()
    return table
