"""What a pipeline needs beside Spark: jars, and Python files that travel to executors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from penstock.pipeline.spec.entries import Shape
from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.keys import keys_of
from penstock.pipeline.spec.model import Pipeline, Sink, Source, Step
from penstock.pipeline.spec.shapes import split_python
from penstock.pipeline.spec.sinks import IcebergSink, JdbcSink, TopicSink
from penstock.pipeline.spec.sources import FileSource, TopicSource
from penstock.pipeline.spec.steps import JoinStep

Part = Source | Step | Sink

DRIVERS = {"jdbc:postgresql:": "postgresql"}
"""The beginning of a JDBC address: the jars with the driver for it."""


def needs_of(pipeline: Pipeline) -> frozenset[str]:
    """The sets of jars that this pipeline needs, by their names in `spark.jars.PINNED`."""
    needs = {need for part in _parts(pipeline) for need in _needs(part)}
    if pipeline.on_error.policy == "dlq":
        needs.add("kafka")
    return frozenset(needs)


def python_files(pipeline: Pipeline) -> tuple[str, ...]:
    """The Python files that the pipeline names, as paths that can be opened, each once."""
    folder = os.path.dirname(os.path.abspath(pipeline.place.file))
    names = [each for part in _parts(pipeline) for each in _python_names(part)]
    files = [split_python(name)[0] for name in names]
    paths = [file if "://" in file else os.path.join(folder, file) for file in files]
    return tuple(dict.fromkeys(paths))


def _python_names(part: Part) -> Iterator[str]:
    kind: Any = type(part)
    for key in keys_of(kind).values():
        if key.shape is Shape.PYTHON:
            yield getattr(part, key.field)


def _parts(pipeline: Pipeline) -> Iterator[Part]:
    yield from pipeline.sources.values()
    yield from pipeline.steps
    yield from pipeline.sinks.values()


def _needs(part: Part) -> Iterator[str]:
    if isinstance(part, TopicSource | TopicSink):
        yield "kafka"
    if isinstance(part, IcebergSink):
        yield "iceberg"
    if isinstance(part, JdbcSink):  # a source reads by itself, without a driver of Java's
        yield from (need for start, need in DRIVERS.items() if part.jdbc.startswith(start))
    if isinstance(part, JoinStep):
        yield from _table_needs(part)
    if any(each.format == "avro" for each in _formats(part)):
        yield "avro"


def _table_needs(step: JoinStep) -> Iterator[str]:
    kind = step.table.partition(":")[0]
    if kind == "topic":
        yield "kafka"
    elif kind == "iceberg":
        yield "iceberg"
    elif kind == "jdbc":
        yield from (need for start, need in DRIVERS.items() if step.table.startswith(start))
    if step.schema.endswith(".avsc"):
        yield "avro"


def _formats(part: Part) -> Iterator[Format]:
    if isinstance(part, TopicSource):
        yield part.key
        yield part.value
    elif isinstance(part, FileSource):
        yield part.format
    elif isinstance(part, TopicSink):
        yield part.value
