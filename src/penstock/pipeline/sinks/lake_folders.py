"""The folders of a lake: columns, expressions with a name, or parts of a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sinks.lake_rows import quoted, shown

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

RECORD_TIME = "_timestamp"

PATTERNS = {"year": "yyyy", "month": "yyyy-MM", "day": "yyyy-MM-dd", "hour": "HH"}
"""Parts of a time that make folders, and how they are written."""

_NAMED = re.compile(
    r"(?P<expression>.+?)\s+as\s+`?(?P<name>[A-Za-z]\w*)`?", re.IGNORECASE | re.DOTALL
)
_PART = re.compile(
    rf"(?P<part>{'|'.join(PATTERNS)})\s*\(\s*`?(?P<column>\w+)`?\s*\)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Folder:
    """A level of folders: its name, and the SQL that makes its value."""

    name: str
    expression: str


def read_folders(wanted: Sequence[str], rows: StructType, place: Place) -> tuple[Folder, ...]:
    """What `partition_by` means for rows of this schema."""
    folders = tuple(_read(each.strip(), rows, place) for each in wanted)
    names = [folder.name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise Problem(f"partition_by names {name!r} twice", "Once is enough.", place)
    if folders and not set(shown(rows.names)) - set(names):
        raise Problem(
            "partition_by takes every column, and leaves none for the files",
            "Leave one of them out.",
            place,
        )
    return folders


def _read(wanted: str, rows: StructType, place: Place) -> Folder:
    if wanted in rows.names:
        return Folder(wanted, quoted(wanted))
    if found := _PART.fullmatch(wanted):
        part, column = found["part"].lower(), found["column"]
        if column not in rows.names:
            raise Problem(
                f"partition_by names {column!r}, which the rows do not have",
                f"They have {', '.join(rows.names)}.",
                place,
            )
        return _part_of(part, column)
    if found := _NAMED.fullmatch(wanted):
        return Folder(found["name"], found["expression"])
    if wanted in PATTERNS:
        return _part_of(wanted, _time_column(wanted, rows, place))
    raise Problem(
        f"partition_by has {wanted!r}, which is no column of the rows",
        f"Name one of {', '.join(shown(rows.names))}, a part of a time (day(at)), or an SQL "
        "expression with a name (lower(country) AS country).",
        place,
    )


def _part_of(part: str, column: str) -> Folder:
    return Folder(part, f"date_format({quoted(column)}, '{PATTERNS[part]}')")


def _time_column(part: str, rows: StructType, place: Place) -> str:
    """The one time that the rows have, or else the record's own."""
    times = [
        each.name
        for each in rows
        if each.dataType.typeName() in ("timestamp", "timestamp_ntz") and each.name[0] != "_"
    ]
    if len(times) == 1:
        return times[0]
    if not times and RECORD_TIME in rows.names:
        return RECORD_TIME
    which = f"several times ({', '.join(times)})" if times else "no time"
    raise Problem(
        f"partition_by has {part!r}, and the rows have {which}",
        f"Say of which column: {part}({times[0] if times else 'at'}).",
        place,
    )
