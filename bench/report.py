"""Writes a result: a table to read, and the numbers of every round to compute with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from bench.model import Case, Row, Scale

_ANEW = "measured anew on"


class Result(NamedTuple):
    """Everything that a page tells."""

    rows: list[Row]
    sections: dict[str, str]
    scale: Scale
    machine: dict[str, str]

    def renewed(self, newer: Result) -> Result:
        """With a newer run's numbers for the cases that it measured, and a line that says so.

        Lines about runs of which no number is left go.
        """
        names = {row.case.name for row in newer.rows}
        rows: list[Row] = []
        for name, old in groupby(self.rows, lambda row: row.case.name):
            rows += [row for row in newer.rows if row.case.name == name] or old
        about = newer.machine
        counts = sorted(len(row.penstock) for row in newer.rows)
        rounds = " to ".join(map(str, sorted({counts[0], counts[-1]})))
        line = (
            f"{', '.join(sorted(names))}, {rounds} rounds, commit {about['commit']}, "
            f"{about['processor']}, kernel {about['kernel']}, Python {about['python']}"
        )
        every = {row.case.name for row in self.rows}
        machine = {
            key: said
            for key, said in self.machine.items()
            if not key.startswith(_ANEW) or every.intersection(said.split(", ")) - names
        }
        machine[f"{_ANEW} {about['date']}"] = line
        return Result(rows, self.sections | newer.sections, self.scale, machine)


def load(folder: Path, name: str, cases: Sequence[Case]) -> Result:
    """A result that was written before, as far as its cases are still measured."""
    data = json.loads((folder / f"{name}.json").read_text())
    numbers = {(each["case"], each["measure"]): each for each in data["rows"]}
    rows = [
        Row(case, criterion, found["apache"], found["penstock"])
        for case in cases
        for criterion in case.criteria
        if (found := numbers.get((case.name, criterion.measure)))
    ]
    return Result(rows, data["sections"], Scale(**data["scale"]), data["machine"])


def table(rows: Sequence[Row]) -> str:
    """The result as Markdown, which is also what the terminal shows."""
    lines = [
        ("case", "measure", "Apache Kafka", "Penstock", "ratio", "target", ""),
        ("---", "---", "--:", "--:", "--:", "---", "---"),
        *(_cells(row) for row in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(7)]
    return "".join(
        "| " + " | ".join(map(str.ljust, line, widths)).rstrip() + " |\n" for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    criterion = row.criterion
    measure = f"{criterion.title}, {criterion.unit}"
    if not row.apache or not row.penstock:
        numbers = [_spread(row.apache), _spread(row.penstock), ""]
        return (row.case.title, measure, *numbers, criterion.target, "not compared")
    return (
        row.case.title,
        measure,
        _spread(row.apache),
        _spread(row.penstock),
        f"{row.ratio:.2f}",
        criterion.target,
        "ok" if row.ok else "**missed**",
    )


def _spread(numbers: Sequence[float]) -> str:
    """The median, and how far the rounds lie apart."""
    if not numbers:
        return ""
    ordered = sorted(numbers)
    middle = _short(ordered[len(ordered) // 2])
    if len(ordered) == 1:
        return middle
    return f"{middle} ({_short(ordered[0])} to {_short(ordered[-1])})"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def write(folder: Path, name: str, result: Result) -> None:
    """The Markdown page and the JSON beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, scale = result.rows, result.scale
    about = "".join(f"- {key}: {value}\n" for key, value in result.machine.items())
    missed = sum(not row.ok for row in rows if row.apache and row.penstock)
    more = "".join(f"## {title}\n\n{text}\n" for title, text in result.sections.items())
    page = (
        "# Penstock beside Apache Kafka\n\n"
        f"{len(rows)} measures, {missed} missed. Medians of interleaved rounds, in brackets the "
        "lowest and the highest; ratio is Penstock's number over Apache Kafka's. What each case "
        "does and why stands in docs/benchmarks.md.\n\n"
        f"{table(rows)}\n![Ratios]({name}.png)\n\n{more}## Machine\n\n{about}\n## Scale\n\n"
        + "".join(f"- {key}: {value:,}\n" for key, value in scale._asdict().items())
    )
    (folder / f"{name}.md").write_text(page)
    (folder / f"{name}.json").write_text(json.dumps(_data(result), indent=1) + "\n")


def _data(result: Result) -> dict[str, object]:
    return {
        "machine": result.machine,
        "scale": result.scale._asdict(),
        "sections": result.sections,
        "rows": [
            {
                "case": row.case.name,
                "measure": row.criterion.measure,
                "unit": row.criterion.unit,
                "apache": row.apache,
                "penstock": row.penstock,
                "target": row.criterion.target,
                "ok": row.ok if row.apache and row.penstock else None,
            }
            for row in result.rows
        ],
    }
