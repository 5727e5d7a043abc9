"""How the rows of a batch are spread over files: not too many, none too large.

Rows are written by the tasks that read them: to bring them together first costs a shuffle. That
makes a file per task and folder, which is fine where files are large. Where the batch before made
small ones a shuffle costs little, and the rows of each folder are brought together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_FILE_BYTES = 8 << 20
GATHERED_BYTES_MAX = 64 << 20
"""A batch that was larger is not brought together: the shuffle would cost more than files do."""


TASKS_PER_CORE = 4
"""Tasks are not equal: with as many as there are cores, all wait for the longest one."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch has become."""

    rows: int
    bytes: int
    files: int
    folders: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How to write the next batch."""

    gather: bool = False
    file_rows_max: int = 0
    """0 is no limit: how much a row takes is not known before the first file."""


def next_layout(last: Written | None, file_bytes: int) -> Layout:
    """The layout of a batch, learnt from the one before."""
    if last is None or not last.rows or not last.files:
        return Layout()
    small = last.bytes / last.files < min(SMALL_FILE_BYTES, file_bytes / 2)
    gather = small and last.bytes <= GATHERED_BYTES_MAX
    return Layout(gather, max(1, file_bytes * last.rows // max(1, last.bytes)))


def arrange(rows: DataFrame, layout: Layout, folders: Sequence[str]) -> DataFrame:
    """The rows in as many tasks as there shall be files in each folder."""
    if not layout.gather:
        tasks = TASKS_PER_CORE * rows.sparkSession.sparkContext.defaultParallelism
        return rows.coalesce(tasks)
    if folders:
        return rows.repartition(*folders)
    return rows.repartition(1)
