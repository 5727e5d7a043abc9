"""Streams of rows on their way from sources to sinks, and the columns that come with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.pipeline.problem import Place, Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORIGIN = "_origin"
"""The column that remembers what a row was made of: see ORIGIN_TYPE. Spark computes it only where
somebody uses it."""

ORIGIN_TYPE = (
    "struct<source: string, topic: string, partition: int, offset: bigint, file: string, "
    "line: bigint, key: binary, value: binary, "
    "headers: array<struct<key: string, value: binary>>>"
)

DEAD_LETTER_TYPE = f"reason string, {ORIGIN} {ORIGIN_TYPE}"
"""The columns of a frame of errors."""


@dataclass(frozen=True, slots=True)
class View:
    """A named stream of rows.

    Columns whose names begin with an underscore describe the record (`_key`, `_timestamp`,
    `_offset`, `_file`, `_line`, `_origin`); sinks leave them out unless they are asked for.
    """

    rows: DataFrame
    errors: tuple[DataFrame, ...] = ()
    """Records that were lost on the way here, as DEAD_LETTER_TYPE says."""
    mode: str = "append"
    """Spark's output mode: `update` where rows may be written again when they change."""

    def with_rows(self, rows: DataFrame) -> View:
        """The same way, other rows."""
        return replace(self, rows=rows)


class Views(Mapping[str, View]):
    """All views so far, in their order; the last is what the next step reads."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}

    def add(self, name: str, view: View) -> None:
        """Add a view, and let SQL use it by its name."""
        view.rows.createOrReplaceTempView(name)
        self._views[name] = view

    def find(self, name: str, place: Place) -> View:
        """The view of that name; the last one for the empty name."""
        if not name:
            return self.last
        if name not in self._views:
            known = ", ".join(self._views)
            raise Problem(f"there is no view {name!r} here", f"Known so far: {known}.", place)
        return self._views[name]

    @property
    def last(self) -> View:
        """What the step before made."""
        return next(reversed(self._views.values()))

    def __getitem__(self, name: str) -> View:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)
