"""docs/security.md promises nothing without a test, and names no test that does not exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
JUDGED = ("Promises, and the tests that hold them", "Vulnerabilities of others")
"""The sections whose every row names a test."""

# What the issue of this page asked for, and what has been published since.
MUST_HAVE = (
    "CVE-2017-12610", "CVE-2018-1288", "CVE-2018-17196", "CVE-2019-12399", "CVE-2021-38153",
    "CVE-2022-34917", "CVE-2023-25194", "CVE-2023-34455", "CVE-2024-27309", "CVE-2024-31141",
    "CVE-2024-56128", "CVE-2025-27817", "CVE-2025-27818", "CVE-2025-27819", "CVE-2026-33557",
    "CVE-2026-33558", "CVE-2026-35554", "KAFKA-21076", "GHSA-2jcm-hq8r-84wx",
)  # fmt: skip


def _tests_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in ast.walk(tree) if isinstance(each, kinds)}


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda it: it.rpartition("/")[2])
def test_a_test_that_the_page_names_exists(path: str, name: str) -> None:
    assert (ROOT / path).exists(), f"{path} is gone"
    assert name in _tests_of(path), f"{path} has no {name}"


@pytest.mark.parametrize("title", JUDGED)
def test_each_promise_and_each_vulnerability_names_a_test(title: str) -> None:
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 10
    assert [row for row in rows if "`tests/" not in row] == []


@pytest.mark.parametrize("published", MUST_HAVE)
def test_what_was_published_is_in_the_table(published: str) -> None:
    assert published in PAGE


def test_fuzz_targets_that_the_page_names_exist() -> None:
    assert set(re.findall(r"fuzz target `(\w+)`", PAGE)) <= set(TARGETS)
