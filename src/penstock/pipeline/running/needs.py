"""What a pipeline needs of the session that it runs in: jars, and Python files that travel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from penstock.pipeline.spec import sinks, sources, steps
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.model import Pipeline


def needed_jars(pipeline: Pipeline) -> frozenset[str]:
    """The sets of jars, by the names of `spark.jars.PINNED`."""
    return frozenset(_needs(pipeline))


def _needs(pipeline: Pipeline) -> Iterator[str]:
    for part in _parts(pipeline):
        if isinstance(part, Format) and part.format == "avro":
            yield "avro"
        elif isinstance(part, sinks.IcebergSink):
            yield "iceberg"
        elif isinstance(part, steps.JoinStep):
            yield part.table.partition(":")[0]
        elif isinstance(part, (sinks.JdbcSink, sources.JdbcSource)):
            yield part.jdbc.removeprefix("jdbc:").partition(":")[0]


def _parts(pipeline: Pipeline) -> Iterator[object]:
    """Every source, step and sink, and the formats in them."""
    for part in (*pipeline.sources.values(), *pipeline.steps, *pipeline.sinks.values()):
        yield part
        for each in fields(part):
            value = getattr(part, each.name)
            if is_dataclass(value) and not isinstance(value, type):
                yield value


def python_files(pipeline: Pipeline) -> list[str]:
    """The Python files that the pipeline names, each once, for the executors to have too."""
    folder = os.path.dirname(os.path.abspath(pipeline.place.file))
    found: dict[str, None] = {}
    for part in _parts(pipeline):
        named = getattr(part, "python", "") or getattr(part, "stateful", "")
        file = named.rpartition(":")[0]
        path = os.path.join(folder, file)
        if file.endswith(".py") and os.path.isfile(path):
            found[path] = None
    return list(found)
