"""The house keeps its own rules: rooms, sizes, indexes and links."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "penstock"
LINES_MAX = 600
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


def python_files() -> list[Path]:
    folders = ("src", "codegen", "bench", "tests", "examples")
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "generated" not in path.parts
    )


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_says_what_it_owns(room: Path) -> None:
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))
    assert docstring is not None
    assert len(docstring.splitlines()) >= 3, "what it owns, what it never does, where to enter"


def test_no_file_is_so_long_that_it_hides_a_second_noun() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in python_files()
        if (count := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert long == {}


def test_there_is_no_room_for_odds_and_ends() -> None:
    names = {path.stem for path in python_files()}
    assert names.isdisjoint({"utils", "util", "helpers", "common", "misc"})


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    pages = sorted(path.name for path in folder.glob("0*.md"))
    assert pages
    assert [page for page in pages if f"({page})" not in index] == []


def test_links_between_documents_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    links = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())
        if "://" not in target
    ]
    assert links
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page, target in links
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_handler_is_served_and_every_served_api_has_a_handler() -> None:
    from penstock.server.apis import CONTROLLER_MODULES, MODULES

    built = {path.stem for path in (PACKAGE / "server" / "handlers").glob("*.py")} - {"__init__"}
    served = {*MODULES.values(), *CONTROLLER_MODULES.values()}
    assert built == served
