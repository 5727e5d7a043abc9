"""Tables that streams are joined with, read again while the pipeline runs.

The plan of a streaming query is made once, and a table in it is read again for each batch, as far
as its files were known then. Reading a whole topic for each batch is slow, and not seeing new
files is wrong. So the table is cached, which keeps its plan and lets batches find its rows in
memory; every `refresh` the cache is emptied and the list of files renewed, and the next batch
fills it again. Between batches nothing is read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.running.clients import client_settings
from penstock.pipeline.sinks.iceberg_catalog import catalog_settings, table_name
from penstock.pipeline.sinks.jdbc_connection import Database
from penstock.pipeline.sinks.topic_places import topics_there
from penstock.pipeline.sources.topics import CHOSEN
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.shapes import duration_ms, is_schema_file
from penstock.pipeline.spec.sinks import IcebergSink
from penstock.pipeline.spec.steps import JoinStep
from penstock.pipeline.steps.refusal import told, told_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

KINDS = ("topic", "parquet", "csv", "json", "iceberg", "jdbc")

_FORMAT_OF_FILE = {".avsc": "avro", ".proto": "protobuf", ".desc": "protobuf"}


def open_table(context: Context, step: JoinStep) -> DataFrame:
    """The table's rows, never older than `refresh` when a batch begins."""
    kind, _, rest = step.table.partition(":")
    with told(step.place):
        if kind == "topic":
            rows = _topic(context, step, rest)
        elif kind in ("parquet", "csv", "json"):
            rows = _files(context, step, kind, context.path(rest))
        elif kind == "iceberg":
            rows = _iceberg(context, step, rest)
        elif kind == "jdbc":
            rows = _database(context, step)
        else:
            raise Problem(
                f"{step.table!r} is no table",
                f"Tables begin with {', '.join(f'{each}:' for each in KINDS)}.",
                step.place,
            )
    return rows


def _topic(context: Context, step: JoinStep, topic: str) -> DataFrame:
    """The newest record of each key; a key whose newest record has no value is not there."""
    from penstock.pipeline.formats.decode import decode

    _check_topic(context, step, topic)
    options = {
        **CHOSEN,
        "kafka.isolation.level": "read_committed",
        **context.kafka_options(),
        **step.options,
    }
    records = context.spark.read.format("kafka").options(**options, subscribe=topic).load()
    # A key lives in one partition, where the larger offset is the newer record.
    newest = records.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    decoded = decode(context, F.col("value"), _format(step))
    read = newest.where("key IS NOT NULL AND value IS NOT NULL").select(
        F.col("key").cast("string").alias("_key"),
        decoded.value.alias("_value"),
        decoded.reason.alias("_reason"),
    )
    good = F.col("_reason").isNull()
    if context.pipeline.on_error.policy in ("fail", "retry"):
        reason = F.concat(F.lit(f"the table {topic} holds under "), "_key", F.lit(": "), "_reason")
        good = F.when(good, True).otherwise(F.raise_error(reason))
    read = read.where(good)
    columns = "_value.*" if isinstance(decoded.kind, StructType) else "_value AS value"
    return kept(context, step, read.selectExpr("_key", columns), lambda: None)


def _check_topic(context: Context, step: JoinStep, topic: str) -> None:
    try:
        there = topics_there(client_settings(context.pipeline), [topic])
    except KafkaException as refused:
        raise Problem(
            f"the topic {topic!r} cannot be looked up: {refused.args[0].str()}",
            f"The brokers are at {context.pipeline.bootstrap}.",
            step.place,
        ) from None
    if not there:
        raise Problem(
            f"there is no topic {topic!r} at {context.pipeline.bootstrap}",
            f"`penstock topic create {topic} --config cleanup.policy=compact` makes one.",
            step.place,
        )


def _format(step: JoinStep) -> Format:
    if not step.schema:
        return Format()
    ending = "." + step.schema.rpartition(".")[2]
    form = _FORMAT_OF_FILE.get(ending, "json") if is_schema_file(step.schema) else "json"
    return Format(format=form, schema=step.schema)


def _files(context: Context, step: JoinStep, form: str, path: str) -> DataFrame:
    reader = context.spark.read.format(form)
    if form == "csv":
        reader = reader.option("header", True).option("inferSchema", not step.schema)
    if step.schema:
        reader = reader.schema(step.schema)
    rows = reader.options(**step.options).load(path)
    return kept(context, step, rows, lambda: context.spark.catalog.refreshByPath(path))


def _iceberg(context: Context, step: JoinStep, table: str) -> DataFrame:
    spec = IcebergSink(iceberg=table, warehouse=step.warehouse, place=step.place)
    for setting, value in catalog_settings(context.pipeline, step.join, spec).items():
        context.spark.conf.set(setting, value)
    name = table_name(context.spark, step.join, spec)
    rows = context.spark.read.options(**step.options).table(name)
    return kept(context, step, rows, lambda: _refresh_iceberg(rows))


def _refresh_iceberg(rows: DataFrame) -> None:
    """Let Iceberg look for a newer snapshot: a plan keeps the one it was made with."""
    leaf: Any = rows._jdf.queryExecution().analyzed().collectLeaves().apply(0)
    leaf.table().table().refresh()


def _database(context: Context, step: JoinStep) -> DataFrame:
    if "dbtable" not in step.options and "query" not in step.options:
        raise Problem(
            "nothing says which table of the database is meant",
            "Write `options: {dbtable: NAME}`.",
            step.place,
        )
    database = Database(context.spark, step.table, step.options, step.place)
    with database.told():
        options = {"url": step.table, **database.for_spark()}
        rows = context.spark.read.format("jdbc").options(**options).load()
    return kept(context, step, rows, lambda: None)


def kept(context: Context, step: JoinStep, rows: DataFrame, renew: Callable[[], None]) -> DataFrame:
    """`rows`, in memory from one refresh to the next; `renew` prepares their being read again."""
    seconds = duration_ms(step.refresh) / 1000
    if not seconds:
        raise Problem("refresh is no time at all", "A second is the least that helps.", step.place)
    rows.persist()
    refresh = Refresh(context.spark, step.join, rows, renew)
    threading.Thread(
        target=refresh.again_and_again, args=(seconds,), name=f"refresh {step.join}", daemon=True
    ).start()
    return rows


@dataclass(frozen=True, slots=True)
class Refresh:
    """Makes Spark forget a table's rows, for as long as the session is open."""

    spark: SparkSession
    name: str
    rows: DataFrame
    renew: Callable[[], None]
    ended: threading.Event = field(default_factory=threading.Event)

    def again_and_again(self, seconds: float) -> None:
        """Once in so many seconds, until `ended`."""
        while self._open() and not self.ended.wait(seconds):
            try:
                self.once()
            except (PySparkException, Py4JError, OSError) as failed:
                if self._open():
                    log.warning("the table %s is used as it was: %s", self.name, told_by(failed))

    def once(self) -> None:
        """Now: the next batch will read the table again."""
        if self._open():
            self.renew()
            self.rows.unpersist()
            self.rows.persist()

    def _open(self) -> bool:
        session = self.spark.sparkContext._jsc
        try:
            return session is not None and not session.sc().isStopped()
        except (Py4JError, OSError):
            return False  # the JVM itself is gone
