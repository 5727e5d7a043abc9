"""What the documentation shows of pipeline files is right."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.pipeline.problem import Problems
from penstock.pipeline.spec.keys import keys_of, markers_of
from penstock.pipeline.spec.model import Pipeline, Sink
from penstock.pipeline.spec.read import pipeline_of
from tests.pipeline.spec.files import REPOSITORY, as_editors_see_it

PAGES = [
    REPOSITORY / "docs" / "pipelines.md",
    *sorted((REPOSITORY / "docs" / "how-to").glob("pipeline-*.md")),
]
MISSING_IN_PARTS = ("the variable", "there is no such view", "a file, and there is no")


def snippets() -> Iterator[Any]:
    for page in PAGES:
        found = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for number, text in enumerate(found, 1):
            yield pytest.param(textwrap.dedent(text), id=f"{page.stem}-{number}")


def completed(text: str) -> str:
    """A whole file, made of a part of one by adding what it leaves out."""
    part = as_editors_see_it(text)
    if isinstance(part, list):
        part = {"steps": part}
    elif not part.keys() & keys_of(Pipeline).keys():
        part = {"sources": {"x": {"topic": "x", **part}}}
    whole = {"name": "orders", "sources": {"x": {"topic": "x"}}, "sinks": {"y": {"console": 1}}}
    written: str = yaml.safe_dump({**whole, **part}, sort_keys=False)
    return written


@pytest.mark.parametrize("text", list(snippets()))
def test_files_and_parts_of_files_in_the_documentation_are_valid(text: str, tmp_path: Path) -> None:
    try:
        pipeline_of(str(tmp_path / "orders.yml"), completed(text).encode(), {})
    except Problems as problems:
        wrong = [
            str(each)
            for each in problems.found
            if not any(words in each.what for words in MISSING_IN_PARTS)
        ]
        assert wrong == []


def test_the_guarantee_of_every_sink_is_told() -> None:
    page = PAGES[0].read_text()
    table = page.partition("### What is guaranteed")[2].partition("##")[0]
    promised = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert promised == {markers_of(kind)[0] for kind in Sink.__args__}
    assert set(re.findall(r"test_\w+\.py", table)) > {"test_topic.py", "test_parquet.py"}


def test_every_key_of_a_file_is_introduced() -> None:
    page = PAGES[0].read_text()
    told = {name for name in keys_of(Pipeline) if f"`{name}`" in page or f"\n{name}:" in page}
    assert told == keys_of(Pipeline).keys()
