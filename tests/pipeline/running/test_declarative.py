"""A pipeline as a project of Spark Declarative Pipelines."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from penstock.pipeline.running.declarative import (
    CODE_FILE,
    SPEC_FILE,
    SQL_FILE,
    Project,
    project_of,
)
from tests.pipeline.running.scene import pipeline_in

SHOP = """\
name: shop
sources:
  orders:
    topic: orders
    value: {format: json, schema: "id long, amount double, note string, at timestamp"}
    watermark: at 10 minutes
  clicks: {pattern: "clicks-.*", from: "2026-11-01T00:00:00Z"}
  made: {generate: 5, columns: {class: value}}
steps:
  - {filter: "note <> 'it''s'", from: orders, as: noted}
  - {sql: "SELECT n.*, c._key FROM noted n JOIN clicks c ON n.id = c._key", as: joined}
  - {route: {large: amount > 100, small: "true"}}
  - {window: 5 minutes / 1m, on: at, by: id, aggregate: {n: count(*)}, from: orders, as: counts}
  - {deduplicate: id, from: orders, as: unique}
  - {mask: {note: redact}, from: orders, as: masked}
sinks:
  big: {topic: "{note}", from: large, key: id}
  lake: {parquet: lake, from: counts, partition_by: id}
  table: {iceberg: shop.orders, from: unique, mode: upsert, key: id}
  shown: {console: 5}
kafka: {sasl.jaas.config: hunter2}
on_error: dlq
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return project_of(pipeline_in(tmp_path, SHOP), "file:///tmp/storage")


def functions(project: Project) -> dict[str, str]:
    """The functions of the project's Python, by their names."""
    tree = ast.parse(project.files[CODE_FILE])
    return {each.name: ast.unparse(each) for each in tree.body if isinstance(each, ast.FunctionDef)}


def test_the_project_names_its_files_and_its_storage(project: Project) -> None:
    spec = yaml.safe_load(project.files[SPEC_FILE])
    assert (spec["name"], spec["storage"]) == ("shop", "file:///tmp/storage")
    assert spec["libraries"] == [{"glob": {"include": "transformations/**"}}]


def test_sql_reads_its_views_as_streams(project: Project) -> None:
    assert project.files[SQL_FILE] == (
        "CREATE TEMPORARY VIEW `joined` AS\n"
        "SELECT n.*, c._key FROM STREAM(noted) n JOIN STREAM(clicks) c ON n.id = c._key;\n"
    )


def test_a_row_goes_one_way_only_at_a_route(project: Project) -> None:
    made = functions(project)
    assert "(amount > 100)" in made["large"]
    assert "NOT coalesce((amount > 100), false) AND (true)" in made["small"]


def test_columns_that_describe_a_record_are_read_only_where_they_are_named(
    project: Project,
) -> None:
    clicks = functions(project)["clicks"]
    assert "CAST(key AS STRING) AS _key" in clicks
    assert "_offset" not in clicks


def test_what_cannot_be_carried_over_refuses_to_run_and_is_told(project: Project) -> None:
    assert "NotImplementedError" in functions(project)["masked"]
    told = "\n".join(project.notes)
    for expected in (
        "on_error: dlq",
        "masked: a step `mask`",
        "clicks: `from: 2026-11-01",
        "big: exactly-once",
        "shown: a sink of this kind",
        "table: rows are appended",
        "penstock.pipeline.shop",
    ):
        assert expected in told


def test_no_secret_is_written(project: Project) -> None:
    assert not any("hunter2" in text for text in project.files.values())
    assert "os.environ['KAFKA_SASL_JAAS_CONFIG']" in project.files[CODE_FILE]
