"""Tables of databases as a source: new rows, by a column that rises."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sources.intake import origin, with_watermark
from penstock.pipeline.spec.sources import JdbcSource
from penstock.pipeline.views import ORIGIN, View

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from penstock.pipeline.sources.rising import Table

POSTGRESQL = "jdbc:postgresql:"


def open_source(context: Context, name: str, spec: JdbcSource) -> View:
    """The rows of a table, the new ones again and again."""
    from penstock.pipeline.sources.rising import RisingTable, Table, connection_of
    from penstock.pipeline.sources.rising_types import selected

    if not spec.jdbc.startswith(POSTGRESQL):
        raise Problem(
            f"a table at {spec.jdbc.partition('//')[0]} cannot be followed",
            f"Known are addresses that begin with {POSTGRESQL}//.",
            spec.place,
        )
    table = Table(
        connection=connection_of(spec.jdbc, spec.user, spec.password, dict(spec.options)),
        source=spec.table,
        column=spec.column,
        columns=("*",),
        start=spec.start,
        lag=spec.lag,
        # Spark asks a Python source once for all there is now: its only batch must hold all of it.
        rows_max=None if context.pipeline.trigger.available_now else spec.batch_rows_max,
    )
    schema = _look_up(table, spec)
    own = {
        "table": replace(table, columns=tuple(map(selected, schema))),
        "own_name": f"penstock_rising_{context.pipeline.name}_{name}",
        "own_schema": ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in schema),
    }
    source: type[RisingTable] = type("Rising", (RisingTable,), own)
    context.spark.dataSource.register(source)
    rows = context.spark.readStream.format(source.name()).load()
    return View(with_watermark(rows.withColumn(ORIGIN, origin(name)), spec.watermark, spec.place))


def _look_up(table: Table, spec: JdbcSource) -> StructType:
    """The columns of the table, and whether all that the source asks for can be had."""
    from penstock.pipeline.sources.rising import connect, from_clause
    from penstock.pipeline.sources.rising_types import columns_of_table

    try:
        import psycopg
    except ImportError:
        raise Problem(
            "tables of PostgreSQL are read with psycopg, which is not installed",
            "`pip install 'penstock[spark]'` brings it.",
            spec.place,
        ) from None
    try:
        with connect(table.connection) as connection:
            asked = f"SELECT * FROM {from_clause(table.source)} LIMIT 0"
            columns = columns_of_table(connection.execute(asked, []).description)
            if table.column not in columns.fieldNames():
                raise Problem(
                    f"{spec.table} has no column {table.column!r}",
                    f"Its columns are {', '.join(columns.fieldNames())}.",
                    spec.place,
                )
            connection.execute(*table.next_end(None))
            return columns
    except psycopg.Error as fault:
        raise Problem(
            f"{spec.table} cannot be read: {str(fault).splitlines()[0]}",
            "See `table`, `column`, `from` and `lag`, and whether the database runs.",
            spec.place,
        ) from None
