"""What must agree within a part."""

from __future__ import annotations

import pytest

from tests.pipeline.spec.files import problems, read

FILE = """\
name: orders
sources:
  orders: {{{source}}}
steps:
  - {{{step}}}
sinks:
  out: {{{sink}}}
"""


def with_parts(
    source: str = "topic: orders", step: str = "filter: a", sink: str = "parquet: lake"
) -> str:
    return FILE.format(source=source, step=step, sink=sink)


@pytest.mark.parametrize(
    ("text", "line", "path", "what"),
    [
        (with_parts(source="topic: a, value: json"), 3, "value", "json needs a schema"),
        (with_parts(source="topic: a, key: {format: csv}"), 3, "key", "csv needs a schema"),
        (with_parts(source="topic: a, value: avro"), 3, "value", "avro needs a schema"),
        (with_parts(source="topic: a, value: parquet"), 3, "value", "a record is never in Parquet"),
        (with_parts(source="topic: a, from: noon"), 3, "from", "this is no place in a topic"),
        (with_parts(source="topic: a, from: '{x'"), 3, "from", "this is no place in a topic"),
        (with_parts(sink="topic: a, value: parquet"), 7, "value", "a record is never in Parquet"),
        (with_parts(sink="iceberg: t, mode: upsert"), 7, "mode", "`upsert` needs `key`"),
        (with_parts(sink="iceberg: t, key: id"), 7, "key", "'key' means nothing when"),
        (with_parts(step="mask: {a: rot13}"), 5, "mask", "it is not known how to mask 'a'"),
        (with_parts(step="route: {a: b}, as: c"), 5, "as", "the views of a route are called"),
        (with_parts(step="join: c, on: d, table: x"), 5, "table", "it does not say what kind"),
        (
            with_parts(step="window: session, on: at, aggregate: {n: count(*)}"),
            5,
            "window",
            "a window is either of a fixed length or a session",
        ),
        (
            with_parts(step="window: 5m, on: at, session: 1m, aggregate: {n: count(*)}"),
            5,
            "session",
            "a window is either of a fixed length or a session",
        ),
        (
            with_parts(step="window: 1m / 5m, on: at, aggregate: {n: count(*)}"),
            5,
            "window",
            "windows that are further apart than they are long",
        ),
        (
            with_parts(step="window: 0s, on: at, aggregate: {n: count(*)}"),
            5,
            "window",
            "a window of no length",
        ),
        (with_parts() + "trigger: {real_time: 1m}\n", 8, "trigger", "`real_time` goes from topics"),
    ],
)
def test_a_broken_rule_is_told_at_its_key(text: str, line: int, path: str, what: str) -> None:
    (problem,) = problems(text)
    assert problem.place is not None
    assert problem.place.line == line
    assert problem.place.path.rpartition(".")[2] == path
    assert problem.what.startswith(what)
    assert problem.advice


@pytest.mark.parametrize(
    "source",
    [
        "topic: a, value: {format: json, schema: id long}",
        "topic: a, value: {format: avro, registry: 'http://localhost:8081'}",
        "topic: a, value: binary",
        "topic: a, from: 2026-11-01T00:00:00Z",
        "topic: a, from: 2026-11-01",
        """topic: a, from: '{"a": {"0": 42, "1": -2}}'""",
    ],
)
def test_ways_to_read_a_topic(source: str) -> None:
    assert read(with_parts(source=source)).sources["orders"]


@pytest.mark.parametrize(
    "step",
    [
        "window: session, session: 10m, on: at, aggregate: {n: count(*)}",
        "window: 10m / 10m, on: at, aggregate: {n: count(*)}",
        "mask: {a: hash, b: redact, c: null, d: keep-last-12}",
    ],
)
def test_steps_that_keep_the_rules(step: str) -> None:
    assert read(with_parts(step=step)).steps


def test_real_time_runs_no_python() -> None:
    step = "stateful: 's3://code/steps.py:Sessions', by: a, schema: a int"
    text = with_parts(step=step, sink="topic: copy")
    (problem,) = problems(f"{text}trigger: {{real_time: 1m}}\n")
    assert problem.what == "`real_time` cannot run Python"
