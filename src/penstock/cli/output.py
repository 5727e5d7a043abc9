"""Answers on standard output: a table for people, JSON or YAML for programs.

On a terminal a table is drawn by Rich and fits the window. Elsewhere it is plain aligned columns,
never cut, so that `grep` and `awk` see everything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.failure import coloured

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


class Shape(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Table(NamedTuple):
    """Rows under headings; a title where an answer has several tables."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""


def answer(document: object, tables: Sequence[Table], shape: Shape) -> None:
    """Print one answer: `tables` for people, or the whole `document` for programs."""
    if shape is Shape.JSON:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif shape is Shape.YAML:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), end="")
    else:
        draw = _draw_for_people if sys.stdout.isatty() else _draw_plainly
        for number, table in enumerate(tables):
            if number:
                print()
            draw(table)


def cell(value: object) -> str:
    """A value as a table shows it: nothing as a dash, lists with commas.

    Names may come from anybody: what could move a terminal's cursor is spelled out.
    """
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        text = ",".join(str(one) for one in value)
    else:
        text = str(value)
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _draw_plainly(table: Table) -> None:
    lines = [[heading.upper() for heading in table.headings]]
    lines += [[cell(value) for value in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if table.title:
        print(table.title)
    for line in lines:
        padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip())


def _draw_for_people(table: Table) -> None:
    console().print(rich_table(table))


def console() -> Console:
    """Standard output on a terminal, coloured if its owner has nothing against it."""
    from rich.console import Console

    return Console(no_color=not coloured(sys.stdout), markup=False, highlight=False)


def rich_table(table: Table) -> RichTable:
    """A table as a terminal shows it."""
    import rich.box
    from rich.table import Table as RichTable

    drawn = RichTable(
        title=table.title or None,
        title_justify="left",
        title_style="bold",
        box=rich.box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
    )
    for number, heading in enumerate(table.headings):
        numeric = bool(table.rows) and all(isinstance(row[number], int) for row in table.rows)
        drawn.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(cell(value) for value in row))
    return drawn
