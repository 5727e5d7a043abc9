"""Tables that streams are joined with: topics, files, Iceberg, databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.pipeline.context import Context
from penstock.pipeline.formats.decode import decode
from penstock.pipeline.formats.schema import columns_of
from penstock.pipeline.problem import Problem
from penstock.pipeline.running.clients import client_settings
from penstock.pipeline.sinks.iceberg_catalog import catalog_settings, table_name
from penstock.pipeline.sinks.jdbc_connection import Database
from penstock.pipeline.sinks.topic_places import topics_there
from penstock.pipeline.sources.topics import CHOSEN
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.shapes import is_schema_file
from penstock.pipeline.spec.sinks import IcebergSink
from penstock.pipeline.spec.steps import JoinStep
from penstock.pipeline.steps.refresh import kept
from penstock.pipeline.steps.refusal import told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        return Format(place=step.place)
    ending = "." + step.schema.rpartition(".")[2]
    form = _FORMAT_OF_FILE.get(ending, "json") if is_schema_file(step.schema) else "json"
    return Format(format=form, schema=step.schema, place=step.place)


def _files(context: Context, step: JoinStep, form: str, path: str) -> DataFrame:
    reader = context.spark.read.format(form)
    if form == "csv":
        reader = reader.option("header", True).option("inferSchema", not step.schema)
    if step.schema:
        given = Format(format=form, schema=step.schema, place=step.place)
        reader = reader.schema(columns_of(context, given))
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
