"""docs/patterns.md guarantees nothing without a test, and shows no code that is none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from penstock.model import dead_letters, delays, ttl
from penstock.model.config import own

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "patterns.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda it: it.rpartition("/")[2])
def test_a_test_that_the_page_names_exists(path: str, name: str) -> None:
    assert (ROOT / path).exists(), f"{path} is gone"
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse((ROOT / path).read_text())
    assert name in {each.name for each in ast.walk(tree) if isinstance(each, kinds)}


def test_each_guarantee_names_a_test() -> None:
    section = PAGE.partition("\n## What is guaranteed\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 10
    assert [row for row in rows if "`tests/" not in row] == []


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_the_code_of_the_page_names_what_there_is(code: str) -> None:
    imported = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.ImportFrom)]
    assert imported
    for each in imported:
        assert each.module is not None
        module = __import__(each.module, fromlist=["*"])
        assert [one.name for one in each.names if not hasattr(module, one.name)] == []


def test_every_setting_and_header_of_our_own_is_told() -> None:
    headers = {
        value
        for module in (dead_letters, delays, ttl)
        for name, value in vars(module).items()
        if isinstance(value, str) and value.startswith("penstock-") and not value.endswith("-")
    }
    assert sorted(name for name in {*own.NAMES, *headers} if name not in PAGE) == []
