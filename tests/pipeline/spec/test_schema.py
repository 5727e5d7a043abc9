"""The JSON Schema says what the reader says, as far as a schema can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from penstock.pipeline.problem import Problems
from penstock.pipeline.spec.read import pipeline_of
from penstock.pipeline.spec.schema import DIALECT, pipeline_schema
from penstock.pipeline.spec.templates import TEMPLATES, template_text
from tests.pipeline.spec.documents import documents, written
from tests.pipeline.spec.files import EXAMPLES, FULL, MINIMAL, as_editors_see_it, problems

SCHEMA = pipeline_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def accepts(text: str) -> bool:
    return bool(VALIDATOR.is_valid(as_editors_see_it(text)))


def test_the_schema_is_one() -> None:
    assert SCHEMA["$schema"] == DIALECT
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", [MINIMAL, FULL], ids=["minimal", "full"])
def test_what_the_reader_takes_the_schema_takes(text: str) -> None:
    VALIDATOR.validate(as_editors_see_it(text))


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_schema_takes_the_files_to_begin_with(template: str) -> None:
    VALIDATOR.validate(as_editors_see_it(template_text(template, "orders.yml")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_schema_takes_the_examples(path: Path) -> None:
    VALIDATOR.validate(as_editors_see_it(path.read_text()))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "name: orders\n",
        f"{MINIMAL}nonsense: 1\n",
        f"{MINIMAL}on_error: dlqq\n",
        f"{MINIMAL}on_error: {{attempts: 0}}\n",
        f"{MINIMAL}on_error: {{attempts: many}}\n",
        f"{MINIMAL}trigger: soon\n",
        f"{MINIMAL}trigger: {{}}\n",
        f"{MINIMAL}trigger: {{every: 1s, real_time: 1s}}\n",
        f"{MINIMAL}trigger:\n",
        f"{MINIMAL}steps: {{filter: a}}\n",
        f"{MINIMAL}steps: [{{filter: a, select: b}}]\n",
        f"{MINIMAL}steps: [{{from: orders}}]\n",
        f"{MINIMAL}steps: [{{select: []}}]\n",
        f"{MINIMAL}steps: [{{window: 1m, on: at}}]\n",
        f"{MINIMAL}steps: [{{python: 'x'}}]\n",
        f"{MINIMAL}kafka: [a]\n",
        f"{MINIMAL}bootstrap: [a]\n",
        MINIMAL.replace("name: orders", "name: a b"),
        MINIMAL.replace("name: orders", "name: ''"),
        MINIMAL.replace("  orders:", "  or-ders:"),
        MINIMAL.replace("topic: orders", "topic: a, pattern: b"),
        MINIMAL.replace("topic: orders", "topics: a"),
        MINIMAL.replace("topic: orders", "topic: a, value: jsn"),
        MINIMAL.replace("topic: orders", "files: a, growing: yes"),
        MINIMAL.replace("topic: orders", "files: a, batch_bytes_max: huge"),
        MINIMAL.replace("{topic: orders}", "orders"),
        MINIMAL.replace("parquet: lake", "jdbc: 'jdbc:x'"),
        MINIMAL.replace("parquet: lake", "jdbc: 'x', table: t"),
        MINIMAL.replace("parquet: lake", "console: 0"),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(text: str) -> None:
    assert not accepts(text)
    assert problems(text)


@settings(max_examples=100)
@given(documents())
def test_what_the_reader_takes_the_schema_takes_whatever_it_is(document: Any) -> None:
    text = written(document)
    try:
        pipeline_of("orders.yml", text.encode(), {})
    except Problems:
        return
    VALIDATOR.validate(as_editors_see_it(text))
