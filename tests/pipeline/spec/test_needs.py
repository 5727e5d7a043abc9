"""What a pipeline needs beside Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipeline.spark.jars import PINNED
from penstock.pipeline.spec.needs import needs_of, python_files
from penstock.pipeline.spec.read import read_pipeline
from tests.pipeline.spec.files import FULL, read

FILE = """\
name: orders
sources: {{a: {{{source}}}}}
steps: [{{{step}}}]
sinks: {{b: {{{sink}}}}}
"""


def needs(
    source: str = "generate: 1", step: str = "filter: a", sink: str = "console: 1", more: str = ""
) -> set[str]:
    return set(needs_of(read(FILE.format(source=source, step=step, sink=sink) + more)))


def test_a_pipeline_of_spark_alone_needs_nothing() -> None:
    assert needs() == set()
    assert needs(source="files: logs", sink="parquet: lake") == set()


@pytest.mark.parametrize(
    ("parts", "needed"),
    [
        ({"source": "topic: t"}, {"kafka"}),
        ({"source": "pattern: t.*"}, {"kafka"}),
        ({"sink": "topic: t"}, {"kafka"}),
        ({"more": "on_error: dlq\n"}, {"kafka"}),
        ({"source": "files: f, format: avro"}, {"avro"}),
        ({"source": "topic: t, key: {format: avro, registry: r}"}, {"kafka", "avro"}),
        ({"sink": "topic: t, value: {format: avro, registry: r}"}, {"kafka", "avro"}),
        ({"sink": "iceberg: t"}, {"iceberg"}),
        ({"sink": "jdbc: 'jdbc:postgresql://h/d', table: t"}, {"postgresql"}),
        ({"sink": "jdbc: 'jdbc:mysql://h/d', table: t"}, set()),
        ({"source": "jdbc: 'jdbc:postgresql://h/d', table: t, column: c"}, set()),
        ({"step": "join: c, on: d, table: 'topic:c'"}, {"kafka"}),
        ({"step": "join: c, on: d, table: 'iceberg:c'"}, {"iceberg"}),
        ({"step": "join: c, on: d, table: 'parquet:c'"}, set()),
        ({"step": "join: c, on: d, table: 'jdbc:postgresql://h/d'"}, {"postgresql"}),
    ],
)
def test_parts_need_jars(parts: dict[str, str], needed: set[str]) -> None:
    assert needs(**parts) == needed


def test_every_need_has_jars() -> None:
    assert needs_of(read(FULL)) <= PINNED.keys()


def test_python_files_travel_once_each(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for name in ("code/steps.py", "sink.py"):
        (tmp_path / name).write_text("def a(): ...\ndef b(): ...\n")
    file = tmp_path / "orders.yml"
    file.write_text(
        "name: orders\n"
        "sources: {a: {topic: t}}\n"
        "steps: [{python: 'code/steps.py:a'}, {python: 'code/steps.py:b'}]\n"
        "sinks: {b: {python: 'sink.py:a'}, c: {python: 's3://code/sink.py:a'}}\n"
    )
    assert python_files(read_pipeline(file, {})) == (
        f"{tmp_path}/code/steps.py",
        f"{tmp_path}/sink.py",
        "s3://code/sink.py",
    )
