"""What a pipeline can do between reading and writing.

Each step reads a view (`from`; the step before, if not given) and makes one (`as`; by default
named `stepN`, counted from 1). Later steps and sinks use views by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.pipeline.spec.entries import Placed, Shape, entry


@dataclass(frozen=True, slots=True, kw_only=True)
class _View(Placed):
    """What every step has."""

    view: str = entry("What the result is called.", default="", name="as", shape=Shape.VIEW)
    source: str = entry(
        "The view that is read; the result before this one, if not given.",
        default="",
        name="from",
        shape=Shape.VIEW,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep(_View):
    """A SELECT over any views that stand before it."""

    sql: str = entry(
        "The statement; `{}` stands for the view before.",
        example="SELECT * FROM orders WHERE amount > 0",
    )
    emit: str = entry(
        "When groups are written, if it aggregates: once, when the watermark has passed them, or "
        "at each change.",
        default="final",
        choices=("final", "update"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectStep(_View):
    """Columns, each an SQL expression."""

    select: tuple[str, ...] = entry("The expressions.", example="[id, amount * 100 AS cents]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterStep(_View):
    """The rows for which a condition holds."""

    filter: str = entry("The condition, in SQL.", example="status >= 500")


@dataclass(frozen=True, slots=True, kw_only=True)
class CastStep(_View):
    """Columns turned into other types; a value that cannot be turned is an error of its record."""

    cast: Mapping[str, str] = entry("The type of each column.", example="{amount: 'decimal(10,2)'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameStep(_View):
    """Columns with other names."""

    rename: Mapping[str, str] = entry("Old name: new name.", example="{ts: at}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlattenStep(_View):
    """Nested fields as columns of their own: `customer.name` becomes `customer_name`."""

    flatten: tuple[str, ...] = entry("The columns to open; `['*']` is all of them.")
    separator: str = entry("What stands between the parts of a name.", default="_")
    explode: tuple[str, ...] = entry("Arrays of which each element becomes a row.", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskStep(_View):
    """Columns made unreadable."""

    mask: Mapping[str, str] = entry(
        "How each column is masked: `hash` (SHA-256 with the salt), `redact` (`***`), `null`, or "
        "`keep-last-N`.",
        example="{card: keep-last-4, email: hash}",
    )
    salt: str = entry(
        "What hashes are salted with; take it from the environment.", default="", secret=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStep(_View):
    """Rows divided into views by conditions; the first that holds takes the row."""

    route: Mapping[str, str] = entry(
        "View: condition.", example="{errors: status >= 500, rest: 'true'}", names=Shape.VIEW
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicateStep(_View):
    """One row per key, within the watermark."""

    deduplicate: tuple[str, ...] = entry("The columns that make a row the same.")
    watermark: str = entry(
        "The column of event time and how late a row may be, if not set before.",
        default="",
        shape=Shape.WATERMARK,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStep(_View):
    """Aggregates over windows of event time."""

    window: str = entry(
        "The length of a window, and of a slide if they overlap.",
        example="5 minutes / 1 minute",
        shape=Shape.WINDOW,
    )
    on: str = entry("The column of event time.")
    aggregate: Mapping[str, str] = entry(
        "Column: aggregate, in SQL.", example="{hits: count(*), bytes: sum(size)}"
    )
    by: tuple[str, ...] = entry("Further columns to group by.", default=())
    watermark: str = entry(
        "How late a row may be, if not set before.",
        default="",
        example="10 minutes",
        shape=Shape.DURATION,
    )
    session: str = entry(
        "Close a window after this much silence instead; `window` is then `session`.",
        default="",
        shape=Shape.DURATION,
    )
    emit: str = entry(
        "When a window is written: once, when it is closed, or at each change.",
        default="final",
        choices=("final", "update"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStep(_View):
    """Two streams, or a stream and a table."""

    join: str = entry("The other side: a view, or a table given by `table`.", shape=Shape.VIEW)
    condition: str = entry(
        "When rows belong together, in SQL; sides are called by their names.", name="on"
    )
    how: str = entry(
        "Which rows are kept.", default="inner", choices=("inner", "left", "right", "full")
    )
    table: str = entry(
        "What the other side is, when it is a table: `topic:NAME` (the newest record of each key), "
        "`parquet:PATH`, `csv:PATH`, `json:PATH`, `iceberg:NAME`, or the address of a database "
        "(`jdbc:postgresql://localhost/shop`, with `options: {dbtable: customers}`).",
        default="",
        example="topic:customers",
    )
    schema: str = entry(
        "The schema of such a table. The values of a topic are JSON then, or what a schema file "
        "says; without it they are text.",
        default="",
        shape=Shape.SCHEMA,
    )
    warehouse: str = entry(
        "The folder that holds Iceberg's tables, where no catalog is configured.", default=""
    )
    refresh: str = entry(
        "How long a table is used before it is read again.",
        default="1 minute",
        shape=Shape.DURATION,
    )
    options: Mapping[str, str] = entry(
        "Further options of Spark's reader for the table: `dbtable`, `user` and `password` of a "
        "database.",
        default={},
        secret=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStep(_View):
    """A function from DataFrame to DataFrame, from a file beside the pipeline."""

    python: str = entry(
        "The file and the function.", example="transforms.py:enrich", shape=Shape.PYTHON
    )
    options: Mapping[str, str] = entry("Keyword arguments of the function.", default={})
    emit: str = entry(
        "When groups are written, if it aggregates: once, when the watermark has passed them, or "
        "at each change.",
        default="final",
        choices=("final", "update"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulStep(_View):
    """A StatefulProcessor (transformWithState), from a file beside the pipeline."""

    stateful: str = entry(
        "The file and the class.", example="sessions.py:Sessions", shape=Shape.PYTHON
    )
    by: tuple[str, ...] = entry("The columns that state is kept by.")
    schema: str = entry("The columns that it gives, as Spark's DDL.")
    time_mode: str = entry(
        "Which timers it may set.",
        default="event_time",
        choices=("none", "processing_time", "event_time"),
    )
    output: str = entry("How it gives rows.", default="append", choices=("append", "update"))


Step = (
    SqlStep
    | SelectStep
    | FilterStep
    | CastStep
    | RenameStep
    | FlattenStep
    | MaskStep
    | RouteStep
    | DeduplicateStep
    | WindowStep
    | JoinStep
    | PythonStep
    | StatefulStep
)
