"""The terminal: some rows of each batch, for whoever is looking. At least once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.sinks.lake_rows import quoted, shown
from penstock.pipeline.spec.sinks import ConsoleSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_MAX = 10_000
"""Rows that are shown pass through the driver's memory."""


def open_sink(_context: Context, name: str, spec: ConsoleSink) -> OpenConsole:
    """The sink of this name."""
    if not 1 <= spec.console <= ROWS_MAX:
        raise Problem(
            f"console is {spec.console}, and must be between 1 and {ROWS_MAX}",
            "It says how many rows of a batch are shown.",
            spec.place,
        )
    return OpenConsole(name, spec)


class OpenConsole:
    """Shows rows on standard output."""

    def __init__(self, name: str, spec: ConsoleSink) -> None:
        self._name = name
        self._spec = spec

    def prepare(self, rows: DataFrame) -> None:
        """Nothing has to be there."""

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Show the first rows; a batch that is written again is shown again."""
        rows = batch.select(*(quoted(name) for name in shown(batch.columns)))
        text = self._json(rows) if self._spec.format == "json" else self._table(rows, batch_id)
        if text:
            print(text, flush=True)

    def _table(self, rows: DataFrame, batch_id: int) -> str:
        # One row more than are shown tells whether there are more.
        first: Any = rows.limit(self._spec.console + 1).toPandas()
        if first.empty:
            return ""
        more = len(first) > self._spec.console
        text: str = first.head(self._spec.console).to_string(index=False, na_rep="NULL")
        return f"-- {self._name}, batch {batch_id}\n{text}" + ("\n..." if more else "")

    def _json(self, rows: DataFrame) -> str:
        from pyspark.sql import functions as F

        lines = rows.select(F.to_json(F.struct("*")).alias("line")).limit(self._spec.console)
        return "\n".join(row.line for row in lines.collect())
