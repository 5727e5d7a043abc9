"""`penstock log`: log directories, without a running node."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.failure import Failure, complain
from penstock.cli.options import Output, new_app
from penstock.cli.output import Shape, cell

if TYPE_CHECKING:
    from penstock.cli.dump_rows import Dump, Fault, Row

log = new_app("Look into log directories, without a running node.")

MEASURED_ROWS = 200
"""So many rows decide how wide the columns are; a segment has too many to look at them all."""

CELL_MAX = 120


@log.command()
def dump(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH", help="Files of a log, a partition's directory, or all of them."
        ),
    ],
    deep: Annotated[
        bool, typer.Option("--deep", help="Every record of every batch, decompressed and decoded.")
    ] = False,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, metavar="N", help="At most N rows of each file."),
    ] = None,
    output: Output = Shape.TABLE,
) -> None:
    """Show what the files of a log directory hold, and check them.

    It reads segments, indexes, producer and metadata snapshots, and checkpoints, of Penstock and
    of Apache Kafka alike. Checksums are compared, offsets must grow, and index entries must point
    at batches that are there. Faults are told of on standard error, and end the command with
    status 1.

    With -o json each row is an object on a line of its own; with -o yaml a document of its own.
    """
    from penstock.cli.dump import dump_file, files_in

    faults = 0
    for path in paths:
        if not os.path.exists(path):
            raise Failure(f"there is no {path}", "name a file of a log, or a directory with logs")
        for number, file in enumerate(files_in(path)):
            found = dump_file(file, deep=deep)
            if found is None:
                raise Failure(
                    f"{file} is no file of a log",
                    "expected a segment, an index, a snapshot or a checkpoint, by its name",
                )
            if output is Shape.TABLE and number:
                print()
            faults += _print(file, found, count, output)
    if faults:
        raise Failure(f"{faults} fault{'' if faults == 1 else 's'} found")


def _print(file: str, found: Dump, count: int | None, output: Shape) -> int:
    """Print one file; the number of its faults."""
    faults: list[Fault] = []
    rows = _sound(file, found, faults)
    shown = rows if count is None else islice(rows, count)
    try:
        if output is Shape.TABLE:
            _print_table(f"{file}: {found.kind}", found.columns, shown)
        else:
            _print_documents(file, shown, output)
        for _ in rows:
            pass  # what is not shown is checked all the same
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Failure(f"cannot read {file}: {error.strerror}") from None
    return len(faults)


def _sound(file: str, found: Dump, faults: list[Fault]) -> Iterator[Row]:
    """The rows without the faults, which are told of as they are met."""
    from penstock.cli.dump_rows import Fault

    for row in found.rows:
        if isinstance(row, Fault):
            faults.append(row)
            complain(f"{file}, {row.where}: {row.problem}")
        else:
            yield row


def _print_table(title: str, columns: Sequence[str], rows: Iterator[Row]) -> None:
    first = [[_cell(row[column]) for column in columns] for row in islice(rows, MEASURED_ROWS)]
    if not first:
        print(f"{title}, empty")
        return
    print(title)
    headings = [column.upper().replace("_", "-") for column in columns]
    widths = [max(map(len, column)) for column in zip(headings, *first, strict=True)]
    for line in (headings, *first):
        _print_line(line, widths)
    for row in rows:
        _print_line([_cell(row[column]) for column in columns], widths)


def _print_line(line: list[str], widths: list[int]) -> None:
    padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
    print("  " + "  ".join(padded).rstrip())


def _cell(value: object) -> str:
    text = _flat(value)
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_flat(one)}" for key, one in value.items())
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return " ".join(f"[{_flat(one)}]" for one in value)
    return cell(value)


def _print_documents(file: str, rows: Iterator[Row], output: Shape) -> None:
    if output is Shape.JSON:
        import json

        for row in rows:
            print(json.dumps({"file": file, **row}, ensure_ascii=False, default=str))
    else:
        import yaml

        for row in rows:
            print("---")
            print(
                yaml.safe_dump({"file": file, **row}, sort_keys=False, allow_unicode=True), end=""
            )
