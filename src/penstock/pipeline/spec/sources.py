"""What a pipeline can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.pipeline.spec.entries import Placed, Shape, entry
from penstock.pipeline.spec.formats import STRING, Format


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource(Placed):
    """One topic, several, or all whose names match a pattern."""

    ONE_OF: ClassVar[tuple[str, ...]] = ("topic", "pattern")

    topic: str = entry(
        "The topic; several are separated by commas.",
        default="",
        example="orders",
        shape=Shape.TOPICS,
    )
    pattern: str = entry("A regular expression of topic names, instead.", default="")
    start: str = entry(
        "Where a new pipeline begins: earliest, latest, a time (`2026-11-01T00:00:00Z`), or "
        "Spark's JSON of offsets by topic and partition.",
        default="earliest",
        name="from",
    )
    value: Format = entry("How values are to be understood.", default=STRING)
    key: Format = entry("How keys are to be understood.", default=STRING)
    batch_records_max: int = entry(
        "At most so many records in one batch; 0 is no limit.", default=0
    )
    data_loss: str = entry(
        "What to do when retention has deleted records that were not read yet.",
        default="fail",
        choices=("fail", "continue"),
    )
    isolation: str = entry(
        "Which records of transactions to read.",
        default="read_committed",
        choices=("read_committed", "read_uncommitted"),
    )
    watermark: str = entry(
        "The column of event time and how late a record may be, for windows and joins.",
        default="",
        example="at 10 minutes",
        shape=Shape.WATERMARK,
    )
    options: Mapping[str, str] = entry(
        "Further options of Spark's connector.", default={}, secret=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource(Placed):
    """Growing files, or a folder into which files are put."""

    files: str = entry("A path, a folder or a glob.", example="/var/log/nginx/*.log")
    format: Format = entry(
        "How they are to be understood; `parquet` is a format too.", default=STRING
    )
    growing: bool = entry(
        "Whether files grow, line by line, as logs do, and are renamed when they are full. "
        "Otherwise a file is whole when it appears.",
        default=False,
    )
    batch_bytes_max: str = entry("At most so much in one batch.", default="256m", shape=Shape.SIZE)
    data_loss: str = entry(
        "What to do when lines of a growing file are gone before they were delivered.",
        default="fail",
        choices=("fail", "continue"),
    )
    watermark: str = entry(
        "The column of event time and how late a row may be.", default="", shape=Shape.WATERMARK
    )
    options: Mapping[str, str] = entry(
        "Further options of Spark's reader.", default={}, secret=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSource(Placed):
    """A table, read again and again from where the last batch ended."""

    jdbc: str = entry("The address.", example="jdbc:postgresql://localhost/shop", shape=Shape.JDBC)
    table: str = entry("The table, or a query in brackets.")
    column: str = entry(
        "A column that only rises (a number, a time or a text): rows above the last one are new."
    )
    user: str = entry("Who connects.", default="")
    password: str = entry(
        "With which password; take it from the environment: ${NAME}.", default="", secret=True
    )
    start: str = entry("Rows above this value only.", default="", name="from")
    lag: str = entry(
        "Leave rows alone until they are so far behind, since transactions may commit later than "
        "they number their rows: a duration for a time column, a difference for a number.",
        default="",
        example="10 seconds",
    )
    batch_rows_max: int = entry("At most so many rows in one batch.", default=100_000, least=1)
    watermark: str = entry(
        "The column of event time and how late a row may be.", default="", shape=Shape.WATERMARK
    )
    options: Mapping[str, str] = entry("Further properties of the driver.", default={}, secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSource(Placed):
    """Made-up rows, for trials: `value` counts from 0, `timestamp` is when the row was made."""

    generate: int = entry("How many rows a second.", example="10", least=1)
    columns: Mapping[str, str] = entry(
        "More columns, each an SQL expression over `value` and `timestamp`.", default={}
    )
    watermark: str = entry(
        "The column of event time and how late a row may be.", default="", shape=Shape.WATERMARK
    )
    options: Mapping[str, str] = entry(
        "Further options of Spark's rate source.", default={}, secret=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSource(Placed):
    """Any Python data source (pyspark.sql.datasource), from a file beside the pipeline."""

    python: str = entry(
        "The file and the class.", example="weather.py:WeatherSource", shape=Shape.PYTHON
    )
    watermark: str = entry(
        "The column of event time and how late a row may be.", default="", shape=Shape.WATERMARK
    )
    options: Mapping[str, str] = entry("Options that the source is given.", default={}, secret=True)


Source = TopicSource | FileSource | JdbcSource | GeneratorSource | PythonSource
