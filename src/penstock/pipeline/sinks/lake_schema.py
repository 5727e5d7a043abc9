"""The columns and folders of a lake, remembered, so that all of its files fit together."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.sinks import lake_disk as disk
from penstock.pipeline.sinks.lake_publication import HIDDEN
from penstock.pipeline.sinks.lake_rows import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

NAME = "schema.json"
SPARK_METADATA = "_spark_metadata"


@dataclass(frozen=True, slots=True)
class LakeSchema:
    """What every file of a lake holds, and the folders that they are in."""

    columns: StructType
    folders: tuple[str, ...]

    def chosen(self, there: Collection[str]) -> list[Column]:
        """Exactly the lake's columns, in its order; null where the rows do not have them."""
        from pyspark.sql import functions as F

        return [
            F.col(quoted(each.name)).alias(each.name)
            if each.name in there
            else F.lit(None).cast(each.dataType).alias(each.name)
            for each in self.columns
        ]


def remember(lake: str, rows: StructType, folders: Sequence[str], place: Place) -> LakeSchema:
    """The schema of a lake after these rows were added to it, or a Problem if they do not fit."""
    _check_foreign(lake, place)
    path = os.path.join(lake, HIDDEN, NAME)
    try:
        known = _read(path)
    except FileNotFoundError:
        known = None
    if known is None:
        merged = LakeSchema(nullable(rows), tuple(folders))
    else:
        _check_folders(known, folders, lake, place)
        merged = LakeSchema(merge(known.columns, nullable(rows), lake, place), known.folders)
    if merged != known:
        disk.make_folder(os.path.dirname(path))
        disk.write_over(
            path, {"folders": list(merged.folders), "columns": merged.columns.jsonValue()}
        )
    return merged


def merge(known: StructType, rows: StructType, where: str, place: Place) -> StructType:
    """Known columns and new ones behind them; one that changed its type is refused."""
    from pyspark.sql.types import StructType

    types = {each.name.lower(): each for each in known}
    added = []
    for each in rows:
        before = types.get(each.name.lower())
        if before is None:
            added.append(each)
        elif before.dataType != each.dataType:
            raise Problem(
                f"the column {each.name!r} is {each.dataType.simpleString()} now, and "
                f"{before.dataType.simpleString()} in {where}",
                f"Cast it back in a step (cast: {{{each.name}: "
                f"{before.dataType.simpleString()}}}), rename it, or write to another place.",
                place,
            )
    return StructType([*known, *added])


def _read(path: str) -> LakeSchema:
    from pyspark.sql.types import StructType

    found = disk.read(path)
    return LakeSchema(StructType.fromJson(found["columns"]), tuple(found["folders"]))


def nullable(schema: StructType) -> StructType:
    """The same columns, any of which may be null: a file's reader cannot rely on more."""
    from pyspark.sql.types import StructType

    relaxed = json.loads(schema.json(), object_hook=_relax)
    return StructType.fromJson(relaxed)


def _relax(part: dict[str, Any]) -> dict[str, Any]:
    for key in ("nullable", "containsNull", "valueContainsNull"):
        if key in part:
            part[key] = True
    if "metadata" in part:
        part["metadata"] = {}
    return part


def _check_folders(known: LakeSchema, folders: Sequence[str], lake: str, place: Place) -> None:
    if known.folders != tuple(folders):
        raise Problem(
            f"partition_by makes the folders {'/'.join(folders) or '(none)'}, but {lake} has "
            f"{'/'.join(known.folders) or '(none)'}",
            "Readers need one layout: write to another folder, or partition as before.",
            place,
        )


def _check_foreign(lake: str, place: Place) -> None:
    if os.path.exists(os.path.join(lake, SPARK_METADATA)):
        raise Problem(
            f"{lake} was written by Spark's own file sink: Spark would read only the files that "
            f"its {SPARK_METADATA} lists, and none of ours",
            "Write to another folder.",
            place,
        )
