"""What a pipeline can write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.pipeline.spec.entries import Placed, Shape, entry
from penstock.pipeline.spec.formats import Format

JSON = Format(format="json")


@dataclass(frozen=True, slots=True, kw_only=True)
class _From(Placed):
    source: str = entry(
        "The view that is written; the last one, if not given.",
        default="",
        name="from",
        shape=Shape.VIEW,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink(_From):
    """A topic."""

    topic: str = entry("The topic, or `{column}` to take it from a column.", example="orders.clean")
    value: Format = entry("How a row becomes a value.", default=JSON)
    key: str = entry(
        "The column, or the SQL expression, that becomes the key; the key that the record came "
        'with (`_key`), if not given. `"null"` is no key.',
        default="",
    )
    headers: Mapping[str, str] = entry("Header: SQL expression.", default={})
    timestamp: str = entry(
        "The column, or the SQL expression, that becomes the record's time; a number is in "
        "milliseconds.",
        default="",
    )
    partitions: int = entry(
        "How many partitions the topic gets, should it have to be created.", default=0
    )
    delivery: str = entry(
        "`exactly-once` writes each batch in transactions; `at-least-once` uses Spark's own sink.",
        default="exactly-once",
        choices=("exactly-once", "at-least-once"),
    )
    options: Mapping[str, str] = entry(
        "Settings of the producer: by librdkafka's names, and by those of Kafka's Java producer "
        "where `delivery` is `at-least-once`.",
        default={},
        secret=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink(_From):
    """Files in a lake."""

    parquet: str = entry("The folder.", example="lake/orders")
    partition_by: tuple[str, ...] = entry(
        "What becomes folders: columns, parts of a time (`day(at)`), or SQL expressions with a "
        "name (`lower(country) AS country`).",
        default=(),
        example="[day, hour]",
    )
    compression: str = entry(
        "How files are packed.", default="zstd", choices=("none", "snappy", "zstd", "lz4", "gzip")
    )
    file_bytes: str = entry("About how large a file should be.", default="128m", shape=Shape.SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSink(_From):
    """A table of Iceberg."""

    iceberg: str = entry("The table, with its namespace.", example="shop.orders")
    warehouse: str = entry(
        "The folder that holds the tables, where no catalog is configured.", default=""
    )
    mode: str = entry(
        "Add rows, or replace the row of the same key.",
        default="append",
        choices=("append", "upsert"),
    )
    key: tuple[str, ...] = entry("The columns that make a row the same, for `upsert`.", default=())
    delete_when: str = entry(
        "Rows for which this holds are deleted instead, for `upsert`.",
        default="",
        example="op = 'd'",
    )
    order_by: str = entry(
        "Which of several rows of a key in one batch is the newest, for `upsert`.", default=""
    )
    partition_by: tuple[str, ...] = entry(
        "Columns or Iceberg's transforms.", default=(), example="[days(at)]"
    )
    properties: Mapping[str, str] = entry(
        "Properties of a table that has to be created.", default={}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSink(_From):
    """A table of a database."""

    jdbc: str = entry("The address.", example="jdbc:postgresql://localhost/shop", shape=Shape.JDBC)
    table: str = entry("The table; created if it is not there.")
    user: str = entry("Who connects.", default="")
    password: str = entry(
        "With which password; take it from the environment: ${NAME}.", default="", secret=True
    )
    key: tuple[str, ...] = entry(
        "The columns that make a row the same: such a row is replaced.", default=()
    )
    order_by: str = entry("Which of several rows of a key in one batch is the newest.", default="")
    options: Mapping[str, str] = entry("Further properties of the driver.", default={}, secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink(_From):
    """The terminal."""

    console: int = entry("How many rows of a batch are shown.", example="20", least=1)
    format: str = entry("How rows are shown.", default="table", choices=("table", "json"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSink(_From):
    """A function that is given each batch, as a DataFrame, and its number."""

    python: str = entry("The file and the function.", example="deliver.py:send", shape=Shape.PYTHON)
    options: Mapping[str, str] = entry(
        "Keyword arguments of the function.", default={}, secret=True
    )


Sink = TopicSink | ParquetSink | IcebergSink | JdbcSink | ConsoleSink | PythonSink
