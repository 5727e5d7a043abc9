"""What must agree within a part of the file, beyond what each key says for itself.

A rule looks at a part that is otherwise right. Only what can be told without Spark is told here:
the sooner someone hears of a mistake the better.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from penstock.pipeline.spec.formats import Format
from penstock.pipeline.spec.model import Pipeline
from penstock.pipeline.spec.shapes import duration_ms, split_window
from penstock.pipeline.spec.sinks import IcebergSink, TopicSink
from penstock.pipeline.spec.sources import TopicSource
from penstock.pipeline.spec.steps import (
    JoinStep,
    MaskStep,
    PythonStep,
    RouteStep,
    StatefulStep,
    WindowStep,
)

TABLES = ("topic", "parquet", "csv", "json", "iceberg", "jdbc")
MASKS = ("hash", "redact", "null")


class Breach(NamedTuple):
    """The key that a rule is broken at, what is wrong, and what to do."""

    key: str
    what: str
    advice: str


def breaches(part: object) -> Iterator[Breach]:
    """Every rule that a part breaks."""
    if rule := _RULES.get(type(part)):
        yield from rule(part)


def _topic_source(source: TopicSource) -> Iterator[Breach]:
    if not _is_start(source.start):
        yield Breach(
            "from",
            "this is no place in a topic",
            "It is earliest, latest, a time such as 2026-11-01T00:00:00Z, or JSON of offsets such "
            'as \'{"orders": {"0": 42}}\'.',
        )
    for key, format_ in (("value", source.value), ("key", source.key)):
        yield from _record_format(key, format_)


def _is_start(start: str) -> bool:
    text = start.strip()
    if text in ("earliest", "latest"):
        return True
    try:
        if text.startswith("{"):
            return isinstance(json.loads(text), dict)
        return bool(datetime.fromisoformat(text))
    except (ValueError, RecursionError):
        return False


def _record_format(key: str, given: Format) -> Iterator[Breach]:
    if given.format == "parquet":
        yield Breach(
            key,
            "a record is never in Parquet: that is a format of whole files",
            "Possible for records: string, binary, json, csv, avro, protobuf.",
        )
    elif given.format not in ("string", "binary") and not (given.schema or given.registry):
        how = "PATH" if given.format in ("avro", "protobuf") else '"id long, at timestamp"'
        yield Breach(
            key,
            f"{given.format} needs a schema, so that columns have the same types in every batch",
            f"Give one, as in `{key}: {{format: {given.format}, schema: {how}}}`, or a `registry`.",
        )


def _topic_sink(sink: TopicSink) -> Iterator[Breach]:
    if sink.value.format == "parquet":
        yield Breach(
            "value",
            "a record is never in Parquet: that is a format of whole files",
            "Possible for records: string, binary, json, csv, avro, protobuf.",
        )


def _iceberg_sink(sink: IcebergSink) -> Iterator[Breach]:
    if sink.mode == "upsert" and not sink.key:
        yield Breach(
            "mode",
            "`upsert` needs `key`",
            "Name the columns that make a row the same: `key: [id]`.",
        )
    if sink.mode == "append":
        for key, given in (
            ("key", sink.key),
            ("delete_when", sink.delete_when),
            ("order_by", sink.order_by),
        ):
            if given:
                yield Breach(
                    key, f"{key!r} means nothing when rows are appended", "Add `mode: upsert`."
                )


def _window_step(step: WindowStep) -> Iterator[Breach]:
    if (step.window == "session") != bool(step.session):
        yield Breach(
            "session" if step.session else "window",
            "a window is either of a fixed length or a session",
            "Write `window: session` and `session: 10 minutes`, or a length alone.",
        )
    elif not step.session:
        length, slide = split_window(step.window)
        if duration_ms(length) == 0 or (slide and duration_ms(slide) == 0):
            yield Breach("window", "a window of no length holds nothing", "Make it longer.")
        elif slide and duration_ms(slide) > duration_ms(length):
            yield Breach(
                "window",
                "windows that are further apart than they are long leave rows out",
                "Let the slide be at most the length.",
            )


def _route_step(step: RouteStep) -> Iterator[Breach]:
    if step.view:
        yield Breach("as", "the views of a route are called by its own keys", "Remove `as`.")


def _mask_step(step: MaskStep) -> Iterator[Breach]:
    for column, how in step.mask.items():
        if how not in MASKS and not re.fullmatch(r"keep-last-[0-9]{1,9}", how):
            yield Breach(
                "mask",
                f"it is not known how to mask {column!r}",
                f"Possible: {', '.join(MASKS)}, keep-last-4 (any number).",
            )


def _join_step(step: JoinStep) -> Iterator[Breach]:
    if step.table and step.table.partition(":")[0] not in TABLES:
        yield Breach(
            "table",
            "it does not say what kind of table this is",
            f"Begin it with one of: {', '.join(f'{kind}:' for kind in TABLES)}.",
        )


def _pipeline(pipeline: Pipeline) -> Iterator[Breach]:
    if not pipeline.trigger.real_time:
        return
    parts = [*pipeline.sources.items(), *pipeline.sinks.items()]
    other = [name for name, part in parts if not isinstance(part, TopicSource | TopicSink)]
    if other:
        yield Breach(
            "trigger",
            f"`real_time` goes from topics to topics, and {other[0]!r} is something else",
            "Use an interval, as in `trigger: 1 second`.",
        )
    if any(isinstance(step, PythonStep | StatefulStep) for step in pipeline.steps):
        yield Breach(
            "trigger",
            "`real_time` cannot run Python",
            "Say it in SQL, or use an interval, as in `trigger: 1 second`.",
        )


_RULES: Mapping[type, Callable[[Any], Iterator[Breach]]] = {
    TopicSource: _topic_source,
    TopicSink: _topic_sink,
    IcebergSink: _iceberg_sink,
    WindowStep: _window_step,
    RouteStep: _route_step,
    MaskStep: _mask_step,
    JoinStep: _join_step,
    Pipeline: _pipeline,
}
