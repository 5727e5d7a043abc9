"""From a pipeline's file to streaming queries.

One query per view that is written: sinks that write the same view share its query, and each batch
is computed once for all of them. Records that could not be read go to the dead-letter topic by a
query of their own, so that what they are is written whatever the steps make of the rest.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec import sinks, sources, steps
from penstock.pipeline.views import View, Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEAD_LETTERS = "dead-letters"
"""The query, and the sink, of records that could not be read."""

SOURCES: Mapping[type, str] = {
    sources.TopicSource: "penstock.pipeline.sources.topics",
    sources.FileSource: "penstock.pipeline.sources.files",
    sources.JdbcSource: "penstock.pipeline.sources.jdbc",
    sources.GeneratorSource: "penstock.pipeline.sources.generator",
    sources.PythonSource: "penstock.pipeline.sources.python",
}
"""Kind: the module whose `open_source(context, name, spec) -> View` opens it."""

STEPS: Mapping[type, str] = {
    steps.SqlStep: "penstock.pipeline.steps.sql",
    steps.SelectStep: "penstock.pipeline.steps.columns",
    steps.FilterStep: "penstock.pipeline.steps.columns",
    steps.CastStep: "penstock.pipeline.steps.cast",
    steps.RenameStep: "penstock.pipeline.steps.columns",
    steps.FlattenStep: "penstock.pipeline.steps.flatten",
    steps.MaskStep: "penstock.pipeline.steps.mask",
    steps.RouteStep: "penstock.pipeline.steps.route",
    steps.DeduplicateStep: "penstock.pipeline.steps.deduplicate",
    steps.WindowStep: "penstock.pipeline.steps.window",
    steps.JoinStep: "penstock.pipeline.steps.join",
    steps.PythonStep: "penstock.pipeline.steps.python",
    steps.StatefulStep: "penstock.pipeline.steps.stateful",
}
"""Kind: the module whose `apply(context, step, name, views) -> Mapping[str, View]` makes its views.

`name` is what the step's result is to be called."""

SINKS: Mapping[type, str] = {
    sinks.TopicSink: "penstock.pipeline.sinks.topic",
    sinks.ParquetSink: "penstock.pipeline.sinks.parquet",
    sinks.IcebergSink: "penstock.pipeline.sinks.iceberg",
    sinks.JdbcSink: "penstock.pipeline.sinks.jdbc",
    sinks.ConsoleSink: "penstock.pipeline.sinks.console",
    sinks.PythonSink: "penstock.pipeline.sinks.python",
}
"""Kind: the module whose `open_sink(context, name, spec) -> OpenSink` opens it."""


class OpenSink(Protocol):
    """A sink that batches are written to."""

    def prepare(self, rows: DataFrame) -> None:
        """Make what is missing (a topic, a table) and check what is there, before the start.

        `rows` is the stream that will be written: its columns count, nothing is read from it.
        """

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch. A batch that was written before must not be written twice."""


@dataclass(frozen=True, slots=True)
class Query:
    """A stream and where it goes."""

    name: str
    view: View
    sinks: Mapping[str, OpenSink]

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch to every sink."""
        shared = len(self.sinks) > 1
        if shared:
            batch.persist()
        try:
            for sink in self.sinks.values():
                sink.write(batch, batch_id)
        finally:
            if shared:
                batch.unpersist()


def assemble(context: Context) -> tuple[Query, ...]:
    """All queries of the pipeline, prepared and not started."""
    views = build_views(context)
    written: dict[str, dict[str, OpenSink]] = {}
    for name, spec in context.pipeline.sinks.items():
        view_name = spec.source or list(views)[-1]
        views.find(view_name, context.pipeline.place)
        written.setdefault(view_name, {})[name] = _open_sink(context, name, spec)
    queries = [Query(name, views[name], opened) for name, opened in written.items()]
    if context.pipeline.on_error.policy == "dlq":
        queries += _dead_letter_query(context, views)
    for query in queries:
        for sink in query.sinks.values():
            sink.prepare(query.view.rows)
    return tuple(queries)


def build_views(context: Context) -> Views:
    """Every view that the file describes; nothing is read yet."""
    views = Views()
    for name, source in context.pipeline.sources.items():
        views.add(
            name, importlib.import_module(SOURCES[type(source)]).open_source(context, name, source)
        )
    for number, step in enumerate(context.pipeline.steps, 1):
        name = step.view or f"step{number}"
        made = importlib.import_module(STEPS[type(step)]).apply(context, step, name, views)
        for each, view in made.items():
            if each in views:
                raise Problem(f"two views are called {each!r}", "Rename one of them.", step.place)
            views.add(each, view)
    return views


def _open_sink(context: Context, name: str, spec: sinks.Sink) -> OpenSink:
    opened: OpenSink = importlib.import_module(SINKS[type(spec)]).open_sink(context, name, spec)
    return opened


def _dead_letter_query(context: Context, views: Views) -> list[Query]:
    errors = list(dict.fromkeys(frame for view in views.values() for frame in view.errors))
    if not errors:
        return []
    from penstock.pipeline.sinks.dead_letters import open_dead_letters

    rows = reduce(lambda one, other: one.unionByName(other), errors)
    return [Query(DEAD_LETTERS, View(rows), {DEAD_LETTERS: open_dead_letters(context)})]
